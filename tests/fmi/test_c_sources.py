"""The library's C as a C engineer reads it: every file compiles by itself against the C generated
for a sample, which is kept in tests/reference, and linters find nothing.
"""

import shutil
import string
import subprocess
from pathlib import Path

import pytest

import rigidblocks
from golden import REFERENCE, assert_golden
from rigidblocks.tracing.compiler import compiler, run_compiler
from sample import generated_c

C = Path(rigidblocks.__file__).parent / "c"
SAMPLE = REFERENCE / "sample"
LONGEST = 12  # of the lists of 20,000 states: 1 to 4 on average, as of any number, if well spread
STRICT = (
    *("-std=c99", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic"),
    *("-Wconversion", "-Wshadow", "-Werror"),
    "-Wno-psabi",  # that a processor without registers for them has vectors in memory
)


def folders(*paths):
    return [f"-I{path}" for path in paths]


METHODS = ("implicit", "adaptive", "stiff", "automatic")  # the sample with another than RK4
KERNEL = folders(C / "kernel", SAMPLE)
FMI = {
    fmi: folders(C / "fmi", C / f"fmi/fmi{fmi}", SAMPLE / f"fmi{fmi}") + KERNEL for fmi in (2, 3)
}
RUNNER = folders(C / "runner", SAMPLE / "runner", C / "kernel", C / "master")
ALGORITHMS = folders(SAMPLE / "algorithms")
CONTACT = folders(SAMPLE / "contact")
SOFT = folders(C / "contact", SAMPLE / "soft")
LANES = [
    [f"-DRB_LANES={n}", *folders(C / "lanes", SAMPLE / "lanes", SAMPLE / "automatic"), *KERNEL]
    for n in (2, 4, 8)
]
XCP = {  # with XCP
    fmi: [
        '-DRB_XCP="xcp_plan.h"',
        "-D_GNU_SOURCE",
        *FMI[fmi],
        *folders(SAMPLE / "xcp", C / "runner"),
    ]
    for fmi in (2, 3)
}
OPTIONS = {  # of a build
    fmi: [
        [],
        ["-DFIXED_INSTANCES=2"],
        ["-DPLAIN_MESSAGES"],
        [f"-DFMI{fmi}_FUNCTION_PREFIX=arm_"],
    ]
    for fmi in (2, 3)
}
WAYS = {  # the ways to compile each file by itself, by its folder
    "kernel": [KERNEL, *(folders(SAMPLE / method) + KERNEL for method in METHODS)],
    "fmi": [FMI[2], FMI[3], XCP[3]],
    **{
        f"fmi{fmi}": [*([*option, *FMI[fmi]] for option in options), XCP[fmi]]
        for fmi, options in OPTIONS.items()
    },
    "page": [KERNEL],
    "master": [[]],
    "runner": [RUNNER],
    "contact": [CONTACT],
    "soft": [SOFT],
    "algorithms": [ALGORITHMS],
    "lanes": LANES,
}
UNITS = [  # the files that are compiled, with the folders that they need
    ("kernel/kernel.c", KERNEL),
    ("kernel/follow.c", KERNEL),
    *(("kernel/kernel.c", folders(SAMPLE / method) + KERNEL) for method in METHODS),
    ("fmi/fmi2/fmi2.c", FMI[2]),
    ("fmi/fmi3/fmi3.c", FMI[3]),
    ("fmi/fmi3/fmi3.c", XCP[3]),
    ("page/page.c", KERNEL),
    ("master/master.c", []),
    ("runner/core.c", RUNNER),
    ("runner/parts.c", RUNNER),
    ("runner/runner.c", RUNNER),
    ("contact/proximity.c", []),
    ("contact/plant.h", CONTACT),
    ("soft/soft.h", SOFT),
    ("algorithms/sweeps.h", ALGORITHMS),
    ("algorithms/derivatives.h", ALGORITHMS),
    ("algorithms/derivatives.h", [*ALGORITHMS, "-DRB_IN_PLANE=1"]),
    ("algorithms/second_derivatives.h", ALGORITHMS),
    ("algorithms/closed_loops.h", ALGORITHMS),
    ("lanes/batch.c", LANES[0]),
    ("lanes/run.c", LANES[0]),
    ("lanes/advance.h", LANES[0]),
    ("lanes/widest.c", []),
]
# what headers of targets define: letters, and words that an FMU's C might use too
TARGET = (
    *string.ascii_uppercase,
    *("OK", "ERROR", "SIZE", "COUNT", "START", "TIME", "LENGTH", "NAMES", "POSITION", "GAMMA"),
    *("EVENT", "FAILED", "ANY", "ALWAYS", "NEVER", "STEP", "EXPORT", "NX", "NU", "NY", "NZ", "NP"),
)


def refusals(command, text=None):
    """What a tool has to say, nothing when it is content."""
    done = subprocess.run(
        [str(part) for part in command], input=text, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr if done.returncode else ""


def needs(tool):
    if not shutil.which(tool):
        pytest.skip(f"there is no {tool} on the PATH")


def test_the_c_of_the_sample_is_the_golden_one(request):
    texts = generated_c()
    for name, text in texts.items():
        path = SAMPLE / name
        path.parent.mkdir(exist_ok=True)
        assert_golden(text, path, request.config.getoption("--update-golden"))
    assert texts.keys() == {
        path.relative_to(SAMPLE).as_posix() for path in SAMPLE.rglob("*") if path.is_file()
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_every_file_compiles_by_itself_without_a_warning(name):
    needs(name)
    files = sorted(path for path in C.rglob("*") if path.suffix in (".c", ".h"))
    assert {path.parent.name for path in files} == WAYS.keys()
    for path in files:
        for way in WAYS[path.parent.name]:
            command = [name, *STRICT, "-x", "c", *way, "-"]
            assert not refusals(command, f'#include "{path}"\n'), path.name


@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_no_name_is_one_that_the_headers_of_a_target_define(name):
    needs(name)
    taken = [f"-D{word}=taken by the target" for word in TARGET]
    for path, way in UNITS[:4]:
        assert not refusals([name, *STRICT, *taken, *way, C / path]), path


@pytest.mark.interop
@pytest.mark.parametrize(("path", "way"), UNITS)
def test_clang_tidy_finds_nothing(path, way):
    needs("clang-tidy")
    assert not refusals(["clang-tidy", "--quiet", C / path, "--", "-xc", "-std=c99", *way])


@pytest.mark.interop
@pytest.mark.parametrize(("path", "way"), UNITS)
def test_cppcheck_finds_nothing(path, way):
    needs("cppcheck")
    options = ("--quiet", "--std=c99", "--error-exitcode=1", "--language=c")
    checks = ("--enable=warning,style,performance,portability", "--suppress=missingIncludeSystem")
    assert not refusals(["cppcheck", *options, *checks, *way, C / path])


@pytest.mark.interop
@pytest.mark.parametrize("standard", ["c++11", "c++20"])
@pytest.mark.parametrize("name", ["g++", "clang++"])
@pytest.mark.parametrize("fmi", [2, 3])
def test_the_sources_of_an_fmu_are_cpp_too_without_a_warning(name, standard, fmi):
    needs(name)
    for option in OPTIONS[fmi]:
        flags = ("-x", "c++", f"-std={standard}", *STRICT[1:], *option, *FMI[fmi])
        assert not refusals([name, *flags, C / f"fmi/fmi{fmi}/fmi{fmi}.c"]), option


@pytest.mark.interop
@pytest.mark.parametrize("standard", ["c99", "c17", "c++17"])
@pytest.mark.parametrize("fmi", [2, 3])
def test_the_sources_of_an_fmu_compile_for_a_processor_without_a_system(fmi, standard):
    """Where an uint32_t is an unsigned long, and other pointers than those wanted are errors."""
    needs("arm-none-eabi-gcc")
    for option in OPTIONS[fmi]:
        flags = ("-mcpu=cortex-m4", f"-std={standard}", *STRICT[1:], *option, *FMI[fmi])
        language = ("-x", "c++" if "++" in standard else "c")
        command = ["arm-none-eabi-gcc", *language, *flags, C / f"fmi/fmi{fmi}/fmi{fmi}.c"]
        assert not refusals(command), option


@pytest.fixture
def program(tmp_path):
    """A function that compiles a C program against the sample's FMI 2.0 sources; its path."""

    def built(name, *options):
        path, flags = tmp_path / name, [*STRICT[:1], *STRICT[2:], *options, *FMI[2]]
        source = Path(__file__).with_name("c_host") / f"{name}.c"
        run_compiler([*compiler(), *map(str, [*flags, source, "-o", path]), "-lm"], tmp_path)
        return path

    return built


def output(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
    return done.stdout


def test_a_saved_state_is_found_at_once_among_many_and_tells_that_it_is_damaged(program):
    longest, accepted = map(int, output(program("saved"), 20_000).split())
    assert longest <= LONGEST
    assert accepted == 0


@pytest.mark.parametrize("option", [(), ("-DPLAIN_MESSAGES",)])
def test_who_finds_all_slots_taken_is_told_so(program, option):
    state, instance, *others = output(program("slots", "-DFIXED_INSTANCES=2", *option)).splitlines()
    taken = "all 2 slots for instances and saved states are taken: there is none for"
    assert (state, instance) == (f"{taken} a state", f"{taken} an instance")
    high, given = ("...", "...") if option else ("3", "7")
    assert others == [
        "fmi2SetRealInputDerivatives: the order of a derivative of w_ref must be from 1 to "
        f"{high}, not {given}"
    ]


def test_plain_messages_need_no_printf(program):
    assert b"printf" in program("slots", "-DFIXED_INSTANCES=2").read_bytes()
    plain = program("slots", "-DFIXED_INSTANCES=2", "-DPLAIN_MESSAGES").read_bytes()
    assert b"printf" not in plain
