"""Build the documentation site: `python docs/build_site.py [FOLDER]` writes FOLDER/site.

The reference pages and the live pages are generated into a copy of the sources, which zensical then
builds in strict mode. A broken link or an unknown name ends the build.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from live_pages import write_live_pages
from reference_pages import pages

ROOT = Path(__file__).parents[1]
# search from disk needs a worker, for which the theme names a script on another host
THEME_SCRIPT, OWN_SCRIPT = "https://unpkg.com/iframe-worker/shim", "worker_in_frame.js"


def build_site(folder: Path) -> Path:
    """Build the site in a folder.

    Args:
        folder: Folder of the build. Its subfolders `docs` and `site` are replaced.

    Returns:
        The folder of the site, with `index.html`.

    Raises:
        subprocess.CalledProcessError: If zensical reports a warning or an error.
    """
    sources, site = folder / "docs", folder / "site"
    for old in (sources, site):
        shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(ROOT / "docs", sources, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "mkdocs.yml", folder)
    for name, text in pages().items():
        path = sources / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    write_live_pages(sources / "live")
    zensical = Path(sys.executable).with_name("zensical")
    command = [zensical, "build", "--strict", "--clean", "--config-file", folder / "mkdocs.yml"]
    subprocess.run(command, cwd=folder, check=True)
    for page in site.rglob("*.html"):
        own = Path(os.path.relpath(site / OWN_SCRIPT, page.parent)).as_posix()
        page.write_text(page.read_text().replace(THEME_SCRIPT, own))
    return site


if __name__ == "__main__":
    print(build_site(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()))
