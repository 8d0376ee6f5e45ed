"""Diagrams of systems, and short representations in notebooks."""

import sys

import numpy as np
import pytest

from planar2ctrl import parts, wired
from rigidblocks import PDController, System, planar2, simulate
from rigidblocks.library import Gain, LowPass
from rigidblocks.robot.model import PlanarModel
from rigidblocks.robot.robots import four_bar


def test_system_diagram_shows_stepping_order_ports_units_and_feedthrough():
    text = wired(parts()).draw()
    lines = text.splitlines()
    assert lines[0] == "flowchart LR"
    boxes = [line for line in lines if '["' in line]
    order = wired(parts()).wiring().stepping_order
    assert [box.split('["')[1].split(":")[0] for box in boxes] == [
        f"{k}. {name}" for k, name in enumerate(order, 1)
    ]
    pd = next(box for box in boxes if "PDController" in box)
    assert "in: q_ref (2) rad, q (2) rad, qd_ref (2) rad/s, qd (2) rad/s" in pd
    assert "out: tau (2) N.m" in pd
    assert "at once: q, q_ref, qd, qd_ref → tau" in pd
    assert any('-->|"q"|' in line for line in lines)  # direct feedthrough of the controller
    assert text._repr_markdown_() == f"```mermaid\n{text}\n```"


def test_system_diagram_shows_element_connections_and_open_inputs():
    system = System()
    system.add("lag", LowPass(0.1, shape=2))
    system.add("gain", Gain(2.0), start={"u": 0.0})
    system.connect("gain.y", "lag.u[2]")
    text = system.draw()
    assert '-.->|"y to u[2]"|' in text
    assert "open: u" in text
    assert system._repr_markdown_().startswith("```mermaid")
    assert System()._repr_markdown_() is None  # an empty system has no diagram


def test_graphviz_diagram_has_the_parts_and_connections_of_the_system(monkeypatch):
    system = wired(parts())
    graph = system.draw("graphviz")
    ids = {name: f"part{k}" for k, name in enumerate(system.wiring().stepping_order)}
    for k, (name, one) in enumerate(ids.items(), 1):
        assert f'\t{one} [label="{k}. {name}: ' in graph.source
    assert graph.source.count(" -> part") == len(system.wiring().connections)
    assert f"\t{ids['robot']} -> {ids['pd']} [label=q style=solid]" in graph.source
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(ImportError, match=r"needs the package graphviz"):
        system.draw("graphviz")
    with pytest.raises(ValueError, match=r"kind must be mermaid or graphviz, not 'svg'"):
        system.draw("svg")


@pytest.mark.parametrize("name", ["a:b", "a->b", "<b>x</b>", 'q"r', r"x\n", "a b"])
def test_graphviz_diagram_escapes_special_characters_in_names(name):
    system = System()
    system.add(name, Gain(2.0), start={"u": 0.0})
    system.add("last", Gain(2.0))
    system.connect(f"{name}.y", "last.u")
    source = system.draw("graphviz").source
    quoted = name.replace("\\", r"\\").replace('"', r"\"")
    assert f'\tpart0 [label="1. {quoted}: Gain\n' in source
    assert "\tpart0 -> part1 [" in source


def test_reprs_of_systems_parts_and_results_are_short_and_contain_no_arrays():
    system = wired(parts())
    assert repr(system).startswith("<System: ")
    assert "robot (RobotPlant)" in repr(system)
    pd = PDController(kp=(1.0, 2.0), kd=(0.1, 0.2))
    assert repr(pd) == "<PDController: q_ref (2), q (2), qd_ref (2), qd (2) -> tau (2)>"
    assert repr(planar2()) == (
        "<Model 'planar2': 2 bodies, nq = 2, nv = 2, gravity (0, 0, -9.81) m/s2>"
    )
    model = four_bar().model
    assert ", 1 loops, " in repr(model)
    assert isinstance(model, PlanarModel)
    result = simulate(system, 0.01, 1e-3, progress=False)
    lines = repr(result).splitlines()
    assert lines[0] == f"<Result: 11 rows from 0 to 0.01 s, {len(result.ports)} ports>"
    assert len(lines) == 1 + len(result.ports)
    assert "array(" not in repr(result)
    assert result._repr_html_().count("<tr>") == 1 + len(result.ports)
    assert np.all(np.isfinite(result.time))
