"""The cache of compiled libraries: nothing is loaded that was not made here, and nothing that goes
wrong with it stops a run.
"""

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
from rigidblocks.tracing import cache
from rigidblocks.tracing.cache import CacheError, digest, spare_folder
from rigidblocks.tracing.compiler import (
    CompilerError,
    compiler,
    shared_library,
    straight_line_compiler,
    version,
)

SOURCE = """__attribute__((visibility("default"))) int answer(void);
int answer(void) {{ return {}; }}
"""
PROGRAM = """
import ctypes, sys, warnings
from rigidblocks.tracing.compiler import shared_library
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
    """The cache folder of the test, its spare one beside it."""
    for name in ("temporary", "elsewhere"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setenv("RIGIDBLOCKS_CACHE", str(tmp_path / "kernels"))
    cache._warn_once.cache_clear()
    return tmp_path / "kernels"


def library(k=42):
    return shared_library({"a.c": SOURCE.format(k)}, "a.c")


def answer(path):
    return ctypes.CDLL(str(path)).answer()


def program(*numbers, **options):
    """Another process that makes and calls the libraries of these numbers."""
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
def test_damaged_library_is_made_anew(damage, caplog):
    path = library()
    content = path.read_bytes()
    path.write_bytes(damage(content))
    assert answer(library()) == 42
    assert path.read_bytes() == content
    assert f"a compiled library is made anew: {path} is not what was compiled" in caplog.text


def test_truncated_library_ends_no_process():
    path = library()
    path.write_bytes(path.read_bytes()[:5000])
    process = program(42)
    assert process.communicate()[0] == f"{path} 42\n"
    assert process.returncode == 0


def strange_library(tmp_path, name):
    """A library that answers 666, under a name that says it is whole."""
    content = shared_library({"a.c": SOURCE.format(666)}, "a.c").read_bytes()
    path = tmp_path / name.replace(name.rpartition("-")[2], f"{digest(content)}.so")
    path.write_bytes(content)
    return path


@needs_root
def test_library_of_another_owner_is_not_loaded(folder, caplog):
    own = library()
    strange = strange_library(folder, own.name)
    own.unlink()
    os.chown(strange, 65534, 65534)
    assert answer(library()) == 42
    assert "belongs to another user" in caplog.text


@needs_modes
@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_library_that_others_can_write_is_not_loaded(folder, mode, caplog):
    own = library()
    strange = strange_library(folder, own.name)
    own.unlink()
    strange.chmod(mode)
    assert answer(library()) == 42
    assert "can be written by others" in caplog.text


@needs_modes
def test_link_is_no_library(folder, tmp_path):
    own = library()
    strange = strange_library(tmp_path / "elsewhere", own.name)
    own.unlink()
    (folder / strange.name).symlink_to(strange)
    assert answer(library()) == 42


@needs_modes
def test_folder_that_others_can_write_is_not_used(folder):
    library()
    folder.chmod(0o777)
    with pytest.warns(RuntimeWarning, match=r"kernels is not used \(can be written by others\)"):
        assert library().parent == spare_folder()


@needs_root
def test_folder_of_another_owner_is_not_used(folder):
    library()
    os.chown(folder, 65534, 65534)
    with pytest.warns(RuntimeWarning, match=r"kernels is not used \(belongs to another user\)"):
        assert library().parent == spare_folder()


@needs_modes
def test_only_its_owner_reads_and_writes_the_cache(folder):
    before = os.umask(0)
    try:
        path = library()
    finally:
        os.umask(before)
    assert [stat.S_IMODE(one.stat().st_mode) for one in (folder, path)] == [0o700, 0o600]


@pytest.mark.parametrize("where", ["file", "/proc/kernels"])
def test_cache_that_cannot_be_made_warns_once_and_costs_one_compilation(
    where, tmp_path, monkeypatch
):
    (tmp_path / "file").touch()
    monkeypatch.setenv("RIGIDBLOCKS_CACHE", str(tmp_path / where))
    with pytest.warns(RuntimeWarning, match="kernels|file") as told:
        paths = [library(), library(), library(43)]
    assert len(told) == 1
    assert str(told[0].message).endswith(
        f", but {spare_folder()}; `rigidblocks doctor` looks into it"
    )
    assert paths[0] == paths[1] != paths[2]
    assert {path.parent for path in paths} == {spare_folder()}
    assert stat.S_IMODE(spare_folder().stat().st_mode) == 0o700


@needs_modes
def test_spare_folder_that_others_can_write_is_not_used_either(folder):
    for place in (folder, spare_folder()):
        place.mkdir()
        place.chmod(0o777)
    with pytest.raises(
        CacheError,
        match=r"no folder can keep compiled libraries \(.*kernels: can be written by others; "
        r".*rigidblocks-\d+: can be written by others\); set RIGIDBLOCKS_CACHE to one that can",
    ):
        library()


@pytest.fixture
def mounted(folder):
    """Runs the program with the cache on a file system of its own, mounted with these options."""
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


@pytest.mark.parametrize(
    ("options", "then", "reason"),
    [
        ("size=8k", "true", "No space left on device"),
        ("noexec", "true", r"runs no code \(mounted noexec\)"),
        ("size=1m", 'mount -o remount,ro "$RIGIDBLOCKS_CACHE"', "Read-only file system"),
    ],
    ids=["full", "noexec", "read-only"],
)
def test_file_system_that_keeps_no_library_warns_once(mounted, options, then, reason, folder):
    done = mounted(options, 1, 2, 1, then=then)
    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["1", "2", "1"]
    assert done.stdout.count(str(spare_folder())) == 3
    assert done.stderr.count("RuntimeWarning") == 1
    assert re.search(rf"{folder} is not used \({reason}\)", done.stderr)


@pytest.mark.slow
def test_compilations_killed_at_any_moment_leave_a_sound_cache(folder, tmp_path):
    rng = random.Random(9)
    for k in range(20):
        process = program(*range(100 * k, 100 * k + 50))
        process.stdout.readline()  # the first one is made
        time.sleep(rng.uniform(0, 0.3))
        process.kill()
        process.communicate()
    assert [one for one in cache.entries(folder) if one.damage] == []
    assert len(list(folder.iterdir())) >= 20
    assert answer(library(0)) == 0
    for k in range(100_000, 100_100):
        left = [*(tmp_path / "temporary").iterdir(), *folder.glob("*.part")]
        if not left:
            break
        for path in left:
            os.utime(path, (0, 0))
        assert answer(library(k)) == k  # cleans; the last orphaned compilers may still be writing
    assert left == []


def test_files_of_compilations_that_run_are_not_cleaned(folder, tmp_path):
    library(1)
    running = tmp_path / "temporary" / "rigidblocks-build-runs"
    running.mkdir()
    (folder / "unfinished.part").touch()
    library(2)
    assert running.exists()
    assert (folder / "unfinished.part").exists()


def test_processes_share_a_cache(folder):
    processes = [program(*range(5)) for _ in range(4)]
    said = {process.communicate()[0] for process in processes}
    assert len(said) == 1
    assert [line.split()[1] for line in said.pop().splitlines()] == list("01234")
    assert len(list(folder.iterdir())) == 5


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at in /proc")
def test_compiler_that_hangs_is_ended_with_all_that_it_started(tmp_path, monkeypatch):
    script = tmp_path / "hangs"
    script.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exit\n'
        f'sleep 1000 &\necho $! > "{tmp_path}/child"\nwait\n'
    )
    script.chmod(0o700)
    monkeypatch.setenv("CC", str(script))
    monkeypatch.setenv("RIGIDBLOCKS_COMPILE_TIME", "0.5")
    child, communicate = tmp_path / "child", subprocess.Popen.communicate

    def once_it_hangs(process, **limit):
        """Its time runs from there, however long it takes a loaded machine to come there."""
        while process.poll() is None and not (child.exists() and child.read_text().strip()):
            time.sleep(0.01)
        return communicate(process, **limit)

    monkeypatch.setattr(subprocess.Popen, "communicate", once_it_hangs)
    compiler.cache_clear()
    try:
        with pytest.raises(
            CompilerError,
            match=r"`.*hangs .*` took longer than 0.5 s and was ended; RIGIDBLOCKS_COMPILE_TIME "
            "sets the limit in seconds",
        ):
            library()
    finally:
        compiler.cache_clear()
    until = time.monotonic() + 500.0  # it would live for 1000 s, were it not killed
    while lives(int(child.read_text())) and time.monotonic() < until:
        time.sleep(0.01)
    assert not lives(int(child.read_text()))
    assert list((tmp_path / "temporary").iterdir()) == []


def lives(pid):
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("text", ["soon", "-1", "0", "nan"])
def test_time_limit_is_a_number_of_seconds(text, monkeypatch):
    monkeypatch.setenv("RIGIDBLOCKS_COMPILE_TIME", text)
    with pytest.raises(
        CompilerError, match=f"RIGIDBLOCKS_COMPILE_TIME is a number of seconds, not '{text}'"
    ):
        library()


# the doctor


def test_doctor_of_a_sound_machine_finds_all_well(folder, capsys):
    library()
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "NOT OK" not in said
    command = straight_line_compiler()
    assert f"{' '.join(command)}: {version(command).splitlines()[0]}" in said
    assert f"{folder}: 1 libraries, 0.0 MB" in said
    for package in ("casadi", "fmpy", "pythonfmu"):
        assert package in said


def test_doctor_finds_damage_and_clears_it(folder, capsys):
    path = library()
    library(43)
    path.write_bytes(b"")
    assert main(["doctor"]) == 1
    assert f"1 damaged, made anew when they are used:\n  {path.name} is not what was compiled" in (
        capsys.readouterr().out
    )
    assert main(["doctor", "--clear"]) == 0
    assert f"removed 2 files from {folder}" in capsys.readouterr().out
    assert list(folder.iterdir()) == []


def test_doctor_names_some_of_many_damaged_libraries(folder, capsys):
    library()
    for k in range(20):
        (folder / f"{k:032x}-{k:032x}.so").touch()
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "21 libraries" in said
    assert "20 damaged" in said
    assert said.count("is not what was compiled\n") == 8
    assert said.endswith("  ...\n")


def test_library_of_an_earlier_version_is_no_damage_and_is_cleared(folder, capsys):
    library()
    (folder / f"{0:032x}.so").touch()
    assert main(["doctor"]) == 0
    assert f"{folder}: 1 libraries" in capsys.readouterr().out
    assert cache.clear(folder) == 2


@needs_modes
def test_doctor_finds_a_folder_that_is_not_used(folder, capsys):
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.warns(RuntimeWarning):
        library()
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert f"NOT OK  cache       {folder}: not used, it can be written by others\n" in said
    assert f"ok      spare cache {spare_folder()}: 1 libraries" in said


def test_doctor_says_that_there_is_no_compiler(monkeypatch, capsys):
    monkeypatch.setenv("CC", "/missing/cc")
    compiler.cache_clear()
    try:
        assert main(["doctor"]) == 1
    finally:
        compiler.cache_clear()
    assert "NOT OK  compiler    the C compiler `/missing/cc` does not run" in (
        capsys.readouterr().out
    )
