"""Pages in headless Chromium: drawing, sliders, player and simulation kernel."""

import numpy as np
import pytest

from browser import browser, needs_browser
from planar2ctrl import parts, wired
from rigidblocks import (
    ContactPlant,
    FloatingBasePlant,
    LiveView,
    RobotPlant,
    System,
    World,
    animate,
    prepare,
    show,
    simulate,
    simulation_page,
    sphere_inertia,
)
from rigidblocks.dynamics.kinematics import body_poses
from rigidblocks.dynamics.loops import closure_errors
from rigidblocks.robot.robots import (
    auto_tree,
    four_bar,
    gripper,
    n_four_bar,
    planar2,
    quadruped,
    stewart_platform,
)
from rigidblocks.robot.shapes import Sphere
from rigidblocks.view.drawn_robot import pose_numbers

pytestmark = [needs_browser, pytest.mark.interop]

# fraction of the pixels that the robot changes
SEEN = """
const { scene } = window.rigidblocks, { gl, canvas } = scene, n = canvas.width * canvas.height;
const picture = () => {
  scene.draw(scene.poses);
  const pixels = new Uint8Array(4 * n);
  gl.readPixels(0, 0, canvas.width, canvas.height, gl.RGBA, gl.UNSIGNED_BYTE, pixels);
  return new Uint32Array(pixels.buffer);
};
const all = picture(), solids = scene.solids;
scene.solids = [];
const none = picture();
scene.solids = solids;
scene.draw(scene.poses);
return all.reduce((count, pixel, k) => count + (pixel !== none[k]), 0) / n;
"""
# set a slider, selected by its name, like a mouse
SLIDE = """
const input = document.querySelector(`input[type=range][aria-label="${arguments[0]}"]`);
input.value = arguments[1];
input.dispatchEvent(new Event("input"));
return [...window.rigidblocks.robots.q];
"""


@pytest.fixture(scope="module")
def tab():
    with browser() as tab:
        yield tab


def open_page(tab, page, path):
    tab.open(page.save(path / "page.html"))
    tab.wait(
        "return window.rigidblocks !== undefined && window.rigidblocks.scene.poses !== undefined"
    )


def standing_robot():
    robot = FloatingBasePlant(quadruped(), position0=(0, 0, 0.35), q0=[0, 0.7, -1.4] * 4)
    return ContactPlant(robot, K=5e3, D=60, mu=0.8)


BENT = [0.4, -0.5, 0.7, 0.9, -0.3, 0.8, 0.2]
ROBOTS = {
    "four-bar": (four_bar(), four_bar().model, "crank_support", 1.3),
    "platform": (stewart_platform(), stewart_platform().model, "joint3", 1.2),
    "quadruped": (
        standing_robot(),
        standing_robot().robot.configuration_model,
        "rear_left_knee",
        -0.9,
    ),
    "gripper": (gripper(), gripper(), "lift", 0.05),
    "arm": (auto_tree(7, 1, 0.8), auto_tree(7, 1, 0.8), "joint4", -1.1),
}


@pytest.mark.parametrize("name", ROBOTS)
def test_sliders_of_a_robot_page_move_the_joints(name, tab, tmp_path):
    robot, model, slider, value = ROBOTS[name]
    open_page(tab, show(robot, BENT if name == "arm" else None), tmp_path)
    assert tab.run(SEEN) >= 0.03
    q = np.array(tab.run(SLIDE, slider, value))
    k = model.q_slices[model.joint_names.index(slider)].start
    assert q[k] == pytest.approx(value, abs=1e-12)
    poses = np.reshape(tab.run("return [...window.rigidblocks.scene.poses]"), (-1, 12))
    expected = [np.asarray(pose_numbers(X), float) for X in body_poses(model, q)]
    np.testing.assert_allclose(poses, expected, atol=1e-12)
    if model.loops:
        assert np.max(list(closure_errors(model, q).values())) < 1e-9
    assert tab.run("return performance.getEntriesByType('resource').length") == 0
    assert tab.errors() == []


@pytest.mark.parametrize("n", [1, 2])
def test_drawn_loops_stay_closed_if_a_slider_passes_a_singular_configuration(n, tab, tmp_path):
    """Bars of equal length are collinear twice per turn, where the mechanism could fold."""
    mechanism = n_four_bar(n, angle=0.3)
    open_page(tab, show(mechanism), tmp_path)
    tab.run("window.rigidblocks.scene.draw = () => {};")  # drawing each pose takes time
    for angle in np.concatenate([np.linspace(1.2, -3.0, 22), np.linspace(-3.0, 3.1, 22)]):
        q = np.array(tab.run(SLIDE, "joint1", angle))
        assert q[0] == pytest.approx(angle, abs=1e-9)
        assert np.max(list(closure_errors(mechanism.model, q).values())) < 1e-9
    assert tab.errors() == []


def test_drawn_loops_stay_closed_if_a_slider_position_is_unreachable(tab, tmp_path):
    """The rocker of a crank-rocker cannot rotate fully: it stops where the bars are collinear."""
    mechanism = four_bar()
    open_page(tab, show(mechanism), tmp_path)
    for angle in (1.5, 2.5, 3.1, 3.14, -3.0, 0.0):
        q = np.array(tab.run(SLIDE, "rocker_support", angle))
        assert np.max(list(closure_errors(mechanism.model, q).values())) < 1e-9


def test_player_and_plot_cursor_show_the_values_of_the_run(tab, tmp_path):
    system = wired(parts())
    result = simulate(system, 4.0, 1e-3, progress=False)
    open_page(tab, animate(result, system), tmp_path)
    assert tab.run(SEEN) >= 0.03
    before = tab.run("return window.rigidblocks.page.player.t")
    tab.wait(f"return Math.abs(window.rigidblocks.page.player.t - {before}) > 0.2")
    tab.run("document.getElementById('play').click()")
    assert tab.run("return window.rigidblocks.page.player.playing") is False
    for t in (0.0, 1.234, 4.0):
        reported = tab.run(
            "const { page, robots } = window.rigidblocks, { player } = page;"
            "player.seek(arguments[0]); const panel = player.plots.panels[0];"
            "return [panel.signal.name, +panel.cursor.getAttribute('x1'), panel.x(arguments[0]),"
            "panel.values.map((one) => one.textContent), [...robots.q]];",
            t,
        )
        name, at, expected_at, texts, q = reported
        exact = [np.interp(t, result.time, column) for column in result["robot.q"].T]
        assert name == "robot.q"
        assert at == pytest.approx(expected_at, abs=0.01)
        np.testing.assert_allclose([float(text.split()[1]) for text in texts], exact, atol=2e-3)
        np.testing.assert_allclose(q, exact, atol=1e-3)
    assert tab.errors() == []


# select the path of the second body in the list, and select it again
CHOOSE = """
const { over, scene } = window.rigidblocks, list = document.querySelector("#layers select");
const before = over.paths.tips.map(({ name, points }) => [name, points.length]);
const choose = () => {
  list.value = [...list.options].find((one) => /body2/.test(one.text)).value;
  list.dispatchEvent(new Event("change"));
};
choose();
const { points } = over.paths.tips[1], more = over.paths.tips.length;
choose();
return [before, points, more, over.paths.tips.length, scene.layers.has("paths")];
"""


def test_drawn_path_of_a_selected_frame_passes_through_the_frame_positions(tab, tmp_path):
    """The path passes through the frame positions, and disappears when it is selected again."""
    system = wired(parts())
    result = simulate(system, 2.0, 1e-3, progress=False)
    open_page(tab, animate(result, system, paths=["body1"]), tmp_path)
    reported = tab.run(CHOOSE)
    (before,), points, more, fewer, is_shown = reported
    assert before[0] == "body1"
    assert (more, fewer, is_shown) == (2, 1, True)
    model = planar2()
    where = [body_poses(model, q)[1].r for q in result["robot.q"]]
    far = np.linalg.norm(np.array(points)[:, None] - np.array(where)[None], axis=2)
    assert len(points) > 20
    assert far.min(axis=1).max() < 2e-3
    assert tab.errors() == []


def test_live_page_follows_a_run_and_replays_the_motion_after_the_run_has_ended(tab):
    """Pose, values at the cursor and clock show the last sent row."""
    system = wired(parts())
    result = simulate(system, 1.0, 1e-3, form="fused", progress=False)
    with LiveView(system) as view:
        tab.call("POST", "/url", {"url": view.address})
        tab.wait("return window.rigidblocks !== undefined")
        view.begin()
        for k in (0, 300, 700):
            rows = tab.run("return window.rigidblocks.page.following.rows")
            view.see(result.time[k], result.values[k])
            tab.wait(f"return window.rigidblocks.page.following.rows > {rows}")
        tab.wait(
            "const { page, robots } = window.rigidblocks;"
            "return page.following.to.every((x, k) => x === robots.q[k])"
        )
        reported = tab.run(
            "const { page, robots } = window.rigidblocks, panel = page.following.plots.panels[0];"
            "return [[...robots.q], panel.signal.name, panel.values.map((one) => one.textContent),"
            "page.following.time, page.following.clock.textContent];"
        )
        np.testing.assert_array_equal(reported[0], result["robot.q"][700])
        assert reported[1] == "robot.q"
        values = [float(text.split()[1]) for text in reported[2]]
        np.testing.assert_allclose(values, result["robot.q"][700], rtol=1e-3)
        assert reported[3:] == [pytest.approx([0.0, 0.3, 0.7]), "0.70 s"]
        assert tab.run(SEEN) >= 0.03
        view.end(result)
        tab.wait("return window.rigidblocks?.page.player !== undefined")
        view.begin()
        view.see(0.0, result.values[0])
        tab.wait("return window.rigidblocks?.page.following !== undefined")
    tab.call("POST", "/url", {"url": "about:blank"})  # the blank page requests no events
    assert [one for one in tab.errors() if "ERR_" not in one] == []


# largest |x| and |y| of the visible corners in picture coordinates, whose edges are at 1
CORNERS = """
const { scene, page } = window.rigidblocks;
if (arguments[0] !== null) page.player.seek(arguments[0]);
const V = scene.viewMatrix(), corners = scene.cornersAt(scene.poses);
const row = (i, p) => V[i] * p[0] + V[4 + i] * p[1] + V[8 + i] * p[2] + V[12 + i];
return [0, 1].map((i) => Math.max(...corners.map((p) => Math.abs(row(i, p) / row(3, p)))));
"""


def test_camera_of_a_page_fits_the_robot_to_the_picture(tab, tmp_path):
    for robot in (four_bar(), gripper(), standing_robot()):
        open_page(tab, show(robot), tmp_path)
        assert 0.9 < max(tab.run(CORNERS, None)) < 0.95


def test_camera_follows_moving_bodies_until_the_user_zooms(tab, tmp_path):
    """Two balls are thrown to 20 m; the mouse wheel stops the camera."""
    world, inertia, fast = World("thrown"), sphere_inertia(0.1, mass=1), [0, 0, 0, 10, 0, 10]
    for k in range(2):
        world.add_body(f"ball{k}", inertia, [Sphere(0.1)], at=(0, 0.3 * k, 0), qd0=fast)
    system = System()
    system.add("world", world.plant())
    result = simulate(system, 2.0, 1e-2, form="numpy", progress=False)
    open_page(tab, animate(result, system), tmp_path)
    tab.run("window.rigidblocks.page.player.play(false)")
    for t in (0.0, 0.77, 1.3, 2.0):
        assert max(tab.run(CORNERS, t)) < 0.95
        assert tab.run(SEEN) >= 0.03
    tab.run("document.getElementById('scene').dispatchEvent(new WheelEvent('wheel'))")
    assert tab.run("return window.rigidblocks.scene.goes") is False
    assert max(tab.run(CORNERS, 0.0)) > 1
    assert tab.errors() == []


# memory after each of n steps of a restarted run
STEPS = """
const { simulation } = window.rigidblocks.page;
simulation.run(false);
simulation.reset();
const rows = [], [n, every, places] = arguments;
for (let k = 1; k <= n; k++) {
  simulation.kernel.step();
  if (k % every === 0) rows.push(places.map((place) => simulation.kernel.memory[place]));
}
return rows;
"""


def test_simulation_in_a_page_matches_the_results_of_the_native_kernel(tab, tmp_path):
    system = wired(parts())
    open_page(tab, simulation_page(system), tmp_path)
    tab.wait("return window.rigidblocks.page.simulation.kernel.steps > 20")
    places = tab.run("return window.rigidblocks.page.simulation.places")
    rows = np.array(tab.run(STEPS, 10_000, 100, places))
    native = simulate(system, 10.0, 1e-3, form="fused", progress=False)
    np.testing.assert_allclose(rows, native["robot.q"][100::100], rtol=0, atol=1e-12)
    assert tab.run(SEEN) >= 0.03
    assert tab.errors() == []


def test_input_slider_of_a_page_takes_effect_in_the_next_step(tab, tmp_path):
    system = System()
    system.add("robot", RobotPlant(auto_tree(3), q0=[0.1, 0.2, 0.3]), start={"tau": [0, 0, 0]})
    open_page(tab, simulation_page(system), tmp_path)
    places = tab.run("return window.rigidblocks.page.simulation.places")
    tab.run(STEPS, 10, 10, places)
    tab.run(SLIDE, "robot.tau[2]", 3.0)
    reported = tab.run(
        "const { kernel, places } = window.rigidblocks.page.simulation; kernel.step();"
        "return places.map((k) => kernel.memory[k]);"
    )
    run = prepare(system, 1e-3, form="fused")
    run.reset()
    for _ in range(10):
        run.step()
    run["robot.tau"] = [0.0, 3.0, 0.0]
    run.step()
    np.testing.assert_allclose(reported, run["robot.q"], rtol=0, atol=1e-14)
    assert tab.errors() == []


def test_simulation_page_shows_the_error_of_a_failed_run_and_can_restart_the_run(tab, tmp_path):
    system = System()
    system.add(
        "robot", RobotPlant(auto_tree(2), qd0=[3e7, -9e8]), start={"tau": [0, 0]}, method="rk4"
    )
    open_page(tab, simulation_page(system, 0.1), tmp_path)
    tab.wait("return !document.getElementById('trouble').hidden")
    assert "the run failed at t = " in tab.run(
        "return document.getElementById('trouble').textContent"
    )
    tab.run("document.getElementById('reset').click()")
    assert tab.run("return window.rigidblocks.page.simulation.kernel.steps") == 0


PULL = """
const { simulation } = window.rigidblocks.page, { robots } = window.rigidblocks;
simulation.run(false);
simulation.reset();
const { pull, kernel } = simulation, X = robots.poses.slice(12, 24);
const tip = [0, 1, 2].map((k) => X[9 + k] + X[3 * k]);  // 1 m along x of the second body
pull.hold(0, 1, tip);
pull.held.to = arguments[0];
simulation.advance(20_000);
const told = { tip: pull.held.at, k: pull.pulls[0].stiffness };
pull.end();
told.f_ext = [...kernel.memory.subarray(pull.pulls[0].place, pull.pulls[0].place + 12)];
return told;
"""


def test_mouse_pull_moves_the_arm_tip_to_the_pulling_point(tab, tmp_path):
    """Spring and damper of a pull bring the tip to rest at the pulling point within reach.

    Gravity is parallel to the joint axes.
    """
    system = System()
    start = {"tau": [0.0, 0.0], "q": [0.4, 0.5]}
    system.add("robot", RobotPlant(planar2()), start=start)
    open_page(tab, simulation_page(system), tmp_path)
    target = [0.6, 1.2, 0.0]
    reported = tab.run(PULL, target)
    np.testing.assert_allclose(reported["tip"], target, atol=1e-3)
    assert reported["k"] > 0
    assert reported["f_ext"] == [0.0] * 12
    assert tab.errors() == []


def test_mouse_grabs_a_body_at_the_surface_point_under_the_cursor(tab, tmp_path):
    system = System()
    system.add("robot", RobotPlant(planar2()), start={"tau": [0.0, 0.0]})
    open_page(tab, simulation_page(system), tmp_path)
    grabbed = tab.run("""
    const { page, scene, robots } = window.rigidblocks;
    const box = scene.canvas.getBoundingClientRect();
    page.simulation.run(false);
    page.simulation.reset();
    const V = scene.viewMatrix(), seen = [];
    for (const body of [0, 1]) {  // the middles of the two links
      const X = robots.poses.subarray(12 * body, 12 * body + 12);
      const p = [0, 1, 2].map((k) => X[9 + k] + 0.5 * X[3 * k]);
      const row = (i) => V[i] * p[0] + V[4 + i] * p[1] + V[8 + i] * p[2] + V[12 + i];
      const [x, y, w] = [row(0), row(1), row(3)];
      const at = [box.left + (1 + x / w) / 2 * box.width, box.top + (1 - y / w) / 2 * box.height];
      const there = scene.pointAt(...at, p);
      seen.push(scene.solidAt(...at).body, there.every((v, k) => Math.abs(v - p[k]) < 1e-9));
    }
    return [...seen, scene.solidAt(box.left + 1, box.top + 1) ?? null];
    """)
    assert grabbed == [0, True, 1, True, None]
    assert tab.errors() == []


LAYOUT = """
const [stage, sliders] = ["stage", "sliders"].map(
  (name) => document.getElementById(name).getBoundingClientRect());
return { width: innerWidth, overflow: document.documentElement.scrollWidth - innerWidth,
         stage: [stage.width, stage.bottom], sliders: [sliders.left, sliders.top] };
"""


def test_narrow_page_shows_the_scene_above_the_sliders(tab, tmp_path):
    open_page(tab, show(planar2()), tmp_path)
    wide = tab.run(LAYOUT)
    assert wide["sliders"][0] >= wide["stage"][0] - 1  # next to the scene
    tab.call("POST", "/window/rect", {"width": 600, "height": 800})
    try:
        tab.wait("return innerWidth <= 700")
        narrow = tab.run(LAYOUT)
    finally:
        tab.call("POST", "/window/rect", {"width": 900, "height": 700})
    assert narrow["overflow"] <= 0
    assert narrow["stage"][0] == pytest.approx(narrow["width"], abs=20)
    assert narrow["sliders"][1] >= narrow["stage"][1] - 1
    assert tab.errors() == []
