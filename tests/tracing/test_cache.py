"""Cache of compiled libraries: only intact libraries of the user load, and errors stop no run."""

import ctypes
import os
import random
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from rigidblocks.cli import main
from rigidblocks.common import compiler
from rigidblocks.common.compiler import (
    CacheError,
    CompilerError,
    digest,
    kernel_compiler,
    shared_library,
    spare_folder,
    version,
)

SOURCE = """__attribute__((visibility("default"))) int answer(void);
int answer(void) {{ return {}; }}
"""
PROGRAM = """
import ctypes, sys, warnings
from rigidblocks.common.compiler import shared_library
warnings.simplefilter("always")
source = '''{}'''
for k in map(int, sys.argv[1:]):
    path = shared_library({{"a.c": source.format(k)}}, "a.c")
    print(path, ctypes.CDLL(str(path)).answer(), flush=True)
"""
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away"
)
needs_modes = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no such modes")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Return the cache folder of the test; the spare folder is next to it."""
    for name in ("temporary", "elsewhere"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setenv("RIGIDBLOCKS_CACHE", str(tmp_path / "kernels"))
    compiler._warn_once.cache_clear()
    return tmp_path / "kernels"


def library(k=42):
    return shared_library({"a.c": SOURCE.format(k)}, "a.c")


def answer(path):
    return ctypes.CDLL(str(path)).answer()


def program(*numbers, **options):
    """Start another process that compiles and calls the libraries of these numbers."""
    command = [sys.executable, "-c", PROGRAM.format(SOURCE), *map(str, numbers)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **pipes, **options)


def emptied(content):
    return content[:0]


def truncated(content):
    return content[: len(content) // 2]


def with_one_bit_changed(content):
    changed = bytearray(content)
    changed[len(content) // 3] ^= 1
    return bytes(changed)


def longer(content):
    return content + b"\0"


@pytest.mark.parametrize("damage", [emptied, truncated, with_one_bit_changed, longer])
def test_damaged_library_in_the_kernel_cache_is_recompiled(damage, caplog):
    path = library()
    content = path.read_bytes()
    path.write_bytes(damage(content))
    assert answer(library()) == 42
    assert path.read_bytes() == content
    assert f"recompiling a damaged library: {path} differs from the compiled library" in caplog.text


def test_truncated_library_in_the_kernel_cache_does_not_crash_the_process():
    path = library()
    path.write_bytes(path.read_bytes()[:5000])
    process = program(42)
    assert process.communicate()[0] == f"{path} 42\n"
    assert process.returncode == 0


def strange_library(tmp_path, name):
    """Return a library that returns 666, under a file name with a valid digest."""
    content = shared_library({"a.c": SOURCE.format(666)}, "a.c").read_bytes()
    path = tmp_path / name.replace(name.rpartition("-")[2], f"{digest(content)}.so")
    path.write_bytes(content)
    return path


@needs_root
def test_cached_library_that_another_user_owns_is_not_loaded(folder, caplog):
    own = library()
    strange = strange_library(folder, own.name)
    own.unlink()
    os.chown(strange, 65534, 65534)
    assert answer(library()) == 42
    assert "belongs to another user" in caplog.text


@needs_modes
@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_cached_library_that_others_can_write_is_not_loaded(folder, mode, caplog):
    own = library()
    strange = strange_library(folder, own.name)
    own.unlink()
    strange.chmod(mode)
    assert answer(library()) == 42
    assert "is writable by other users" in caplog.text


@needs_modes
def test_symbolic_link_in_the_kernel_cache_is_not_loaded_as_a_library(folder, tmp_path):
    own = library()
    strange = strange_library(tmp_path / "elsewhere", own.name)
    own.unlink()
    (folder / strange.name).symlink_to(strange)
    assert answer(library()) == 42


@needs_modes
def test_cache_folder_that_others_can_write_is_not_used(folder):
    library()
    folder.chmod(0o777)
    with pytest.warns(RuntimeWarning, match=r"kernels is not used \(is writable by other users\)"):
        assert library().parent == spare_folder()


@needs_root
def test_cache_folder_of_another_user_is_not_used(folder):
    library()
    os.chown(folder, 65534, 65534)
    with pytest.warns(RuntimeWarning, match=r"kernels is not used \(belongs to another user\)"):
        assert library().parent == spare_folder()


@needs_modes
def test_only_the_owner_can_read_and_write_the_cache(folder):
    before = os.umask(0)
    try:
        path = library()
    finally:
        os.umask(before)
    assert [stat.S_IMODE(one.stat().st_mode) for one in (folder, path)] == [0o700, 0o600]


@pytest.mark.parametrize("where", ["file", "/proc/kernels"])
def test_unusable_cache_folder_gives_one_warning_and_a_temporary_folder_is_used(
    where, tmp_path, monkeypatch
):
    (tmp_path / "file").touch()
    monkeypatch.setenv("RIGIDBLOCKS_CACHE", str(tmp_path / where))
    with pytest.warns(RuntimeWarning, match="kernels|file") as reported:
        paths = [library(), library(), library(43)]
    assert len(reported) == 1
    assert str(reported[0].message).endswith(
        f"; {spare_folder()} is used instead; run `rigidblocks doctor` for details"
    )
    assert paths[0] == paths[1] != paths[2]
    assert {path.parent for path in paths} == {spare_folder()}
    assert stat.S_IMODE(spare_folder().stat().st_mode) == 0o700


@needs_modes
def test_temporary_cache_folder_that_others_can_write_is_rejected(folder):
    for place in (folder, spare_folder()):
        place.mkdir()
        place.chmod(0o777)
    with pytest.raises(
        CacheError,
        match=r"no folder can store compiled libraries \(.*kernels: is writable by other users; "
        r".*rigidblocks-\d+: is writable by other users\); set RIGIDBLOCKS_CACHE to a usable",
    ):
        library()


@pytest.fixture
def mounted(folder):
    """Return a function that runs the program with the cache on a mounted file system."""
    folder.mkdir(0o700)
    unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    mount = 'mount -t tmpfs -o "$0" tmpfs "$RIGIDBLOCKS_CACHE" && chmod 700 "$RIGIDBLOCKS_CACHE"'
    if (
        not shutil.which("unshare")
        or subprocess.run(
            [*unshare, "sh", "-c", mount, "size=64k"], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("this machine lets nobody mount a file system")

    def run(options, *numbers, then="true"):
        command = [*unshare, "sh", "-c", f'{mount} && {then} && exec "$@"', options, sys.executable]
        program = PROGRAM.format(SOURCE)
        return subprocess.run(
            [*command, "-c", program, *map(str, numbers)],
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "then", "reason"),
    [
        ("size=8k", "true", "No space left on device"),
        ("noexec", "true", r"does not run code \(mounted noexec\)"),
        ("size=1m", 'mount -o remount,ro "$RIGIDBLOCKS_CACHE"', "Read-only file system"),
    ],
    ids=["full", "noexec", "read-only"],
)
def test_cache_on_an_unusable_file_system_gives_one_warning(mounted, options, then, reason, folder):
    done = mounted(options, 1, 2, 1, then=then)
    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["1", "2", "1"]
    assert done.stdout.count(str(spare_folder())) == 3
    assert done.stderr.count("RuntimeWarning") == 1
    assert re.search(rf"{folder} is not used \({reason}\)", done.stderr)


@pytest.mark.slow
def test_killed_compilations_leave_a_valid_cache(folder, tmp_path):
    rng = random.Random(9)
    for k in range(20):
        process = program(*range(100 * k, 100 * k + 50))
        process.stdout.readline()  # the first library is compiled
        time.sleep(rng.uniform(0, 0.3))
        process.kill()
        process.communicate()
    assert [one for one in compiler.cache_entries(folder) if one.damage] == []
    assert len(list(folder.iterdir())) >= 20
    assert answer(library(0)) == 0
    for k in range(100_000, 100_100):
        left = [*(tmp_path / "temporary").iterdir(), *folder.glob("*.part")]
        if not left:
            break
        for path in left:
            os.utime(path, (0, 0))
        assert answer(library(k)) == k  # removes old files; killed compilers may still write some
    assert left == []


def test_cache_cleanup_does_not_remove_files_of_running_compilations(folder, tmp_path):
    library(1)
    running = tmp_path / "temporary" / "rigidblocks-build-runs"
    running.mkdir()
    (folder / "unfinished.part").touch()
    library(2)
    assert running.exists()
    assert (folder / "unfinished.part").exists()


@pytest.mark.slow
def test_concurrent_processes_can_share_one_kernel_cache(folder):
    processes = [program(*range(5)) for _ in range(4)]
    said = {process.communicate()[0] for process in processes}
    assert len(said) == 1
    assert [line.split()[1] for line in said.pop().splitlines()] == list("01234")
    assert len(list(folder.iterdir())) == 5


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at in /proc")
def test_hanging_compiler_is_killed_with_its_child_processes(tmp_path, monkeypatch):
    script = tmp_path / "hangs"
    script.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exit\n'
        f'sleep 1000 &\necho $! > "{tmp_path}/child"\nwait\n'
    )
    script.chmod(0o700)
    monkeypatch.setenv("CC", str(script))
    monkeypatch.setenv("RIGIDBLOCKS_COMPILE_TIME", "0.5")
    child, communicate = tmp_path / "child", subprocess.Popen.communicate

    def limit_hanging_process(process, **limit):
        """Start the time limit when the script hangs, also on a loaded machine."""
        while process.poll() is None and not (child.exists() and child.read_text().strip()):
            time.sleep(0.01)
        return communicate(process, **limit)

    monkeypatch.setattr(subprocess.Popen, "communicate", limit_hanging_process)
    compiler.compiler.cache_clear()
    try:
        with pytest.raises(
            CompilerError,
            match=r"`.*hangs .*` exceeded the time limit of 0.5 s; RIGIDBLOCKS_COMPILE_TIME sets "
            "the limit in seconds",
        ):
            library()
    finally:
        compiler.compiler.cache_clear()
    until = time.monotonic() + 500.0  # without the kill it would run for 1000 s
    while lives(int(child.read_text())) and time.monotonic() < until:
        time.sleep(0.01)
    assert not lives(int(child.read_text()))
    assert list((tmp_path / "temporary").iterdir()) == []


def lives(pid):
    """Return whether a process runs; a zombie process does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("text", ["soon", "-1", "0", "nan"])
def test_invalid_compile_time_limit_is_rejected(text, monkeypatch):
    monkeypatch.setenv("RIGIDBLOCKS_COMPILE_TIME", text)
    with pytest.raises(
        CompilerError,
        match=f"RIGIDBLOCKS_COMPILE_TIME must be a positive number of seconds, not '{text}'",
    ):
        library()


# the doctor command


def test_doctor_command_reports_no_problem_on_a_valid_installation(folder, capsys):
    library()
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "NOT OK" not in said
    command = kernel_compiler()
    assert f"{' '.join(command)}: {version(command).splitlines()[0]}" in said
    assert f"{folder}: 1 libraries, 0.0 MB" in said
    for package in ("casadi", "fmpy", "pythonfmu"):
        assert package in said


@pytest.mark.slow
def test_doctor_command_reports_and_clears_a_damaged_cache(folder, capsys):
    path = library()
    library(43)
    path.write_bytes(b"")
    assert main(["doctor"]) == 1
    assert (
        f"1 damaged, to be recompiled at the next use:\n  {path.name} differs from the compiled "
        "library" in (capsys.readouterr().out)
    )
    assert main(["doctor", "--clear"]) == 0
    assert f"removed 2 files from {folder}" in capsys.readouterr().out
    assert list(folder.iterdir()) == []


def test_doctor_command_lists_at_most_eight_damaged_libraries(folder, capsys):
    library()
    for k in range(20):
        (folder / f"{k:032x}-{k:032x}.so").touch()
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "21 libraries" in said
    assert "20 damaged" in said
    assert said.count("differs from the compiled library\n") == 8
    assert said.endswith("  ...\n")


def test_doctor_command_accepts_old_cached_libraries_and_clearing_removes_them(folder, capsys):
    library()
    (folder / f"{0:032x}.so").touch()
    assert main(["doctor"]) == 0
    assert f"{folder}: 1 libraries" in capsys.readouterr().out
    assert compiler.clear_cache(folder) == 2


@needs_modes
def test_doctor_command_reports_a_cache_folder_that_is_not_used(folder, capsys):
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.warns(RuntimeWarning):
        library()
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert (
        f"NOT OK  cache       {folder}: not used, because it is writable by other users\n" in said
    )
    assert f"ok      spare cache {spare_folder()}: 1 libraries" in said


def test_doctor_command_reports_a_missing_compiler(monkeypatch, capsys):
    monkeypatch.setenv("CC", "/missing/cc")
    compiler.compiler.cache_clear()
    try:
        assert main(["doctor"]) == 1
    finally:
        compiler.compiler.cache_clear()
    assert "NOT OK  compiler    the C compiler `/missing/cc` does not run" in (
        capsys.readouterr().out
    )
