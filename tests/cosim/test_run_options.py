"""Options that `simulate`, `prepare` and `export_fmu` share: unknown names and wrong types."""

import inspect

import pytest

from rigidblocks import PDController, System, export_fmu, prepare, simulate
from rigidblocks.cosim.run_options import DEFAULTS, PrepareOptions, RunOptions
from rigidblocks.fmi.export import ExportOptions


@pytest.fixture
def system():
    system = System()
    system.add("pd", PDController([1.0], [0.1]), start={"q": [0.0], "qd": [0.0]})
    return system


@pytest.fixture
def call(system, tmp_path):
    """Return a function that calls one of the functions by name with options."""
    calls = {
        "simulate": lambda options: simulate(system, 0.01, 1e-3, **options),
        "prepare": lambda options: prepare(system, 1e-3, **options),
        "export_fmu": lambda options: export_fmu(
            PDController([1.0], [0.1]), tmp_path / "pd.fmu", **options
        ),
    }
    return lambda name, options: calls[name](options)


@pytest.mark.parametrize(
    ("function", "option", "similar"),
    [
        ("simulate", "rtoll", "rtol"),
        ("simulate", "forms", "form"),
        ("simulate", "start_t", "t_start"),
        ("prepare", "evry", "every"),
        ("prepare", "t_strt", "t_start"),
        ("export_fmu", "methd", "method"),
        ("export_fmu", "platform", "platforms"),
    ],
)
def test_error_for_an_unknown_option_suggests_a_similar_option(call, function, option, similar):
    with pytest.raises(TypeError, match=rf"{function}\(\) has no \w+ '{option}'.*") as caught:
        call(function, {option: 1})
    assert f"(did you mean {similar}?)" in str(caught.value)


@pytest.mark.parametrize(
    ("function", "option"),
    [
        ("simulate", "transparent"),
        *(("export_fmu", one) for one in ("bundle", "deflate", "page", "arrays")),
    ],
)
@pytest.mark.parametrize("value", ["no", 1, None])
def test_boolean_run_option_rejects_values_of_other_types(call, function, option, value):
    with pytest.raises(TypeError, match=f"{option} must be True or False, not {value!r}"):
        call(function, {option: value})


@pytest.mark.parametrize("options", [PrepareOptions, RunOptions, ExportOptions])
def test_shared_option_types_do_not_repeat_named_parameters_of_their_functions(options):
    functions = {PrepareOptions: prepare, RunOptions: simulate, ExportOptions: export_fmu}
    named = inspect.signature(functions[options]).parameters
    assert not set(options.__annotations__) & set(named)
    if options is not ExportOptions:
        assert set(options.__annotations__) <= set(DEFAULTS)
