"""The site asks nobody for anything: the script with which its search works from disk, which the
theme would have from elsewhere, is one of its own files.
"""

from typing import Any

from mkdocs.utils import get_relative_url

ELSEWHERE, OWN = "https://unpkg.com/iframe-worker/shim", "worker_in_frame.js"


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """The text of a page that names the file in the site."""
    return output.replace(ELSEWHERE, get_relative_url(OWN, page.url))


def on_post_template(output_content: str, **_: Any) -> str:
    """The text of a page without a place of its own, such as that of what is not found."""
    return output_content.replace(ELSEWHERE, f"/{OWN}")
