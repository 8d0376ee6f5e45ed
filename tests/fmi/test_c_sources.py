"""C sources compile separately and without linter findings.

Each C file compiles separately against the generated C of a sample model. The generated C is stored
in tests/reference.
"""

import re
import shutil
import string
import subprocess
import sysconfig
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

import rigidblocks
from golden import REFERENCE, assert_golden
from rigidblocks.common.compiler import compiler, run_compiler
from sample import generated_c

C = Path(rigidblocks.__file__).parent / "c"
SAMPLE = REFERENCE / "sample"
LONGEST = 12  # longest chain of the hash table with 20,000 states; on average chains have 1 to 4
STRICT = (
    *("-std=c99", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic"),
    *("-Wconversion", "-Wshadow", "-Werror"),
    "-Wno-psabi",  # processors without vector registers pass vectors in memory
)


def folders(*paths):
    return [f"-I{path}" for path in paths]


METHODS = ("implicit", "adaptive", "stiff", "automatic")  # methods of the sample besides RK4
KERNEL = folders(C / "kernel", SAMPLE)
FMI = {fmi: folders(C / "fmi", SAMPLE / f"fmi{fmi}") + KERNEL for fmi in (2, 3)}
PYTHON = ["-isystem", sysconfig.get_path("include"), "-isystem", np.get_include()]
RUNNER = folders(C / "runner", SAMPLE / "runner", C / "kernel", C / "master")
ALGORITHMS = folders(SAMPLE / "algorithms")
CONTACT = folders(SAMPLE / "contact", C / "kernel")
SOFT = folders(C / "contact", SAMPLE / "soft", C / "kernel")
LANES = [
    [f"-DRB_LANES={n}", *folders(C / "lanes", SAMPLE / "lanes", SAMPLE / "automatic"), *KERNEL]
    for n in (2, 4, 8)
]
XCP = {  # sources with XCP
    fmi: [
        '-DRB_XCP="xcp_plan.h"',
        "-D_GNU_SOURCE",
        *FMI[fmi],
        *folders(SAMPLE / "xcp", C / "runner"),
    ]
    for fmi in (2, 3)
}
OPTIONS = {  # build options
    fmi: [
        [],
        ["-DFIXED_INSTANCES=2"],
        ["-DPLAIN_MESSAGES"],
        [f"-DFMI{fmi}_FUNCTION_PREFIX=arm_"],
    ]
    for fmi in (2, 3)
}
KINDS = {  # FMUs with optional features of FMI 3.0
    2: [],
    3: [
        *(
            folders(SAMPLE / kind) + FMI[3]
            for kind in ("binary", "scheduled", "clocked", "resizable")
        ),
        folders(SAMPLE / "combined", SAMPLE / "resizable") + FMI[3],
    ],
}
WAYS = {  # compiler options of each file, by its name or by its folder
    "kernel": [KERNEL, *(folders(SAMPLE / method) + KERNEL for method in METHODS)],
    "fmi": [
        *([f"-DRB_FMI={fmi}", *FMI[fmi]] for fmi in (2, 3)),
        *(["-DRB_FMI=3", *way] for way in (XCP[3], *KINDS[3])),
    ],
    **{
        f"fmi{fmi}.c": [*([*option, *FMI[fmi]] for option in options), XCP[fmi], *KINDS[fmi]]
        for fmi, options in OPTIONS.items()
    },
    "fmi3_variables.h": [["-DRB_FMI=3", *way] for way in (FMI[3], XCP[3], *KINDS[3])],
    "master": [[]],
    "python": [PYTHON],
    "runner": [RUNNER],
    "contact": [CONTACT],
    "compliant_forces.h": [SOFT],
    "algorithms": [ALGORITHMS],
    "lanes": LANES,
}
UNITS = [  # compiled files, with their include folders
    ("kernel/kernel.c", KERNEL),
    ("kernel/kernel.c", ["-DRB_INPUT_POLYNOMIALS", *KERNEL]),
    *(("kernel/kernel.c", folders(SAMPLE / method) + KERNEL) for method in METHODS),
    ("fmi/fmi2.c", FMI[2]),
    ("fmi/fmi3.c", FMI[3]),
    ("fmi/fmi3.c", XCP[3]),
    *(("fmi/fmi3.c", way) for way in KINDS[3]),
    ("kernel/kernel.c", ["-DRB_WEB_PAGE", *KERNEL]),
    ("master/master.c", []),
    ("runner/bare_metal_step.c", RUNNER),
    ("runner/system_step.c", RUNNER),
    ("runner/runner.c", RUNNER),
    ("runner/link.c", RUNNER),
    ("runner/recorder.c", RUNNER),
    ("contact/proximity.c", []),
    ("python/call.c", PYTHON),
    ("contact/time_step.h", CONTACT),
    ("contact/compliant_forces.h", SOFT),
    ("algorithms/gauss_seidel.h", ALGORITHMS),
    ("algorithms/tree_matrices.h", ALGORITHMS),
    ("algorithms/tree_matrices.h", [*ALGORITHMS, "-DRB_IN_PLANE=1"]),
    ("algorithms/second_derivatives.h", ALGORITHMS),
    ("algorithms/closed_loops.h", ALGORITHMS),
    ("algorithms/matrix_product.h", ALGORITHMS),
    ("algorithms/ray_casting.h", ALGORITHMS),
    ("algorithms/particle_filter.h", ALGORITHMS),
    ("lanes/lane_library.c", LANES[0]),
    ("lanes/lane_library.c", ["-DRB_RUNS", *LANES[0]]),
    ("lanes/lane_step.h", LANES[0]),
    ("lanes/lane_library.c", ["-DRB_VECTOR_WIDTH", *LANES[0]]),
]
INTERFACE = "kernel/model_interface.h"  # C file that lists what generated headers must define
GENERATED = ("model.h", *(f"{m}/model.h" for m in METHODS), "contact/tables.h", "soft/tables.h")
_DEFINED = (
    r"^#define (RB_\w+)(?![\w(])|^static const (?:unsigned )?\w+ (RB_\w+)|"
    r"(?:^enum \{ |, |^ +)(RB_\w+) = "
)


# macros of target headers: letters, and words that the C of an FMU might use
TARGET = (
    *string.ascii_uppercase,
    *("OK", "ERROR", "SIZE", "COUNT", "START", "TIME", "LENGTH", "NAMES", "POSITION", "GAMMA"),
    *("EVENT", "FAILED", "ANY", "ALWAYS", "NEVER", "STEP", "EXPORT", "NX", "NU", "NY", "NZ", "NP"),
)


def refusals(command, text=None):
    """Return the output of a failed tool, or an empty string if the tool succeeds."""
    done = subprocess.run(
        [str(part) for part in command], input=text, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr if done.returncode else ""


def needs(tool):
    if not shutil.which(tool):
        pytest.skip(f"{tool} is not on the PATH")


@pytest.mark.slow
def test_generated_c_of_the_sample_block_equals_the_stored_reference(request):
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
def test_every_c_file_compiles_separately_without_warnings(name):
    needs(name)
    files = sorted(path for path in C.rglob("*") if path.suffix in (".c", ".h"))
    assert WAYS.keys() <= {part for path in files for part in (path.name, path.parent.name)}
    for path in files:
        for way in WAYS.get(path.name) or WAYS[path.parent.name]:
            command = [name, *STRICT, "-x", "c", *way, "-"]
            assert not refusals(command, f'#include "{path}"\n'), path.name


def _listed():
    """Return the comment that lists the definitions of generated headers."""
    return re.match(r"/\*.*?\*/", (C / INTERFACE).read_text(), re.DOTALL).group()


@pytest.mark.parametrize("generated", GENERATED)
def test_c_interface_description_lists_every_definition_of_a_generated_header(generated):
    found = re.findall(_DEFINED, (SAMPLE / generated).read_text(), re.MULTILINE)
    names = {name for groups in found for name in groups if name} - {"RB_MODEL_H", "RB_TABLES_H"}
    sensors = r"RB_AT_(LEFT|FLOOR)_(?!OUT)"  # places of the outputs of the two sensors
    listed = set(re.findall(r"RB_\w+", _listed()))
    assert names
    assert {name for name in names if not re.match(sensors, name)} <= listed


def test_every_definition_in_the_c_interface_description_is_used():
    paths = (*C.rglob("*.[ch]"), *SAMPLE.rglob("*.h"))
    texts = [re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL) for path in paths]
    used = set(re.findall(r"RB_\w+", "".join(texts)))
    assert set(re.findall(r"RB_\w+", _listed())) <= used


@pytest.mark.parametrize("name", ["gcc", "clang"])
@pytest.mark.parametrize("option", ["-DRB_LARGE=1", "-DFIXED_INSTANCES=2", "-DSTATIC_WORKSPACES"])
def test_workspace_macro_compiles_without_warnings_with_every_build_option(name, option):
    needs(name)
    text = """\
    #include "workspace.h"
    double last(int n);
    double last(int n)
    {
        RB_WORKSPACE(1, double, numbers, 9);
        numbers[n] = 1.0;
        return numbers[8];
    }
    """
    command = [name, *STRICT, option, f"-I{C / 'kernel'}", "-x", "c", "-"]
    assert not refusals(command, dedent(text))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_c_sources_compile_if_target_headers_define_conflicting_macros(name):
    needs(name)
    taken = [f"-D{word}=taken by the target" for word in TARGET]
    for path, way in UNITS[:4]:
        assert not refusals([name, *STRICT, *taken, *way, C / path]), path


@pytest.mark.interop
@pytest.mark.parametrize(("path", "way"), UNITS)
def test_clang_tidy_reports_no_problem_in_the_c_sources(path, way):
    needs("clang-tidy")
    assert not refusals(["clang-tidy", "--quiet", C / path, "--", "-xc", "-std=c99", *way])


@pytest.mark.interop
@pytest.mark.parametrize(("path", "way"), UNITS)
def test_cppcheck_reports_no_problem_in_the_c_sources(path, way):
    needs("cppcheck")
    # only three macro combinations: twelve take a minute per file
    options = ("--quiet", "--std=c99", "--error-exitcode=1", "--language=c", "--max-configs=3")
    checks = ("--enable=warning,style,performance,portability", "--suppress=missingIncludeSystem")
    assert not refusals(["cppcheck", *options, *checks, *way, C / path])


@pytest.mark.interop
@pytest.mark.parametrize("standard", ["c++11", "c++20"])
@pytest.mark.parametrize("name", ["g++", "clang++"])
@pytest.mark.parametrize("fmi", [2, 3])
def test_fmu_sources_compile_as_cpp_without_warnings(name, standard, fmi):
    needs(name)
    for option in OPTIONS[fmi]:
        flags = ("-x", "c++", f"-std={standard}", *STRICT[1:], *option, *FMI[fmi])
        assert not refusals([name, *flags, C / f"fmi/fmi{fmi}.c"]), option


@pytest.mark.interop
@pytest.mark.parametrize("standard", ["c99", "c17", "c++17"])
@pytest.mark.parametrize("fmi", [2, 3])
def test_fmu_sources_compile_for_a_bare_metal_processor(fmi, standard):
    """On this processor uint32_t is unsigned long; pointer mismatches are errors."""
    needs("arm-none-eabi-gcc")
    for option in OPTIONS[fmi]:
        flags = ("-mcpu=cortex-m4", f"-std={standard}", *STRICT[1:], *option, *FMI[fmi])
        language = ("-x", "c++" if "++" in standard else "c")
        command = ["arm-none-eabi-gcc", *language, *flags, C / f"fmi/fmi{fmi}.c"]
        assert not refusals(command), option


@pytest.fixture
def program(tmp_path):
    """Return a function that compiles a C program against the sample's FMI 2.0 sources."""

    def built(name, *options):
        path, flags = tmp_path / name, [*STRICT[:1], *STRICT[2:], *options, *FMI[2]]
        source = Path(__file__).with_name("c_host") / f"{name}.c"
        run_compiler([*compiler(), *map(str, [*flags, source, "-o", path]), "-lm"], tmp_path)
        return path

    return built


def output(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.slow
def test_hash_table_of_saved_fmu_states_has_short_chains_and_detects_damaged_states(program):
    longest, accepted = map(int, output(program("saved"), 20_000).split())
    assert longest <= LONGEST
    assert accepted == 0


@pytest.mark.slow
@pytest.mark.parametrize("option", [(), ("-DPLAIN_MESSAGES",)])
def test_fmu_instance_or_state_beyond_the_static_limit_is_rejected_with_a_message(program, option):
    state, instance, *others = output(program("slots", "-DFIXED_INSTANCES=2", *option)).splitlines()
    taken = "all 2 slots for instances and saved states are in use; no slot for"
    assert (state, instance) == (f"{taken} a state", f"{taken} an instance")
    high, given = ("...", "...") if option else ("3", "7")
    assert others == [
        "fmi2SetRealInputDerivatives: the order of a derivative of w_ref must be from 1 to "
        f"{high}, not {given}"
    ]


@pytest.mark.slow
def test_fmu_sources_with_the_plain_messages_option_do_not_link_printf(program):
    assert b"printf" in program("slots", "-DFIXED_INSTANCES=2").read_bytes()
    plain = program("slots", "-DFIXED_INSTANCES=2", "-DPLAIN_MESSAGES").read_bytes()
    assert b"printf" not in plain
