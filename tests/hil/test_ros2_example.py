"""ROS 2 hardware interface, compiled without ROS: it controls the robot of a program by a link."""

import csv
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from planar2ctrl import parts
from rigidblocks import Port, System, build_runner, simulate
from rigidblocks.hil.links import UdpLink
from udp_partner import free_ports

EXAMPLE = Path(__file__).parents[2] / "examples/ros2"
DT = 1e-3
CONTROLLER = """
#include <cstdlib>
#include <iostream>
#include "partner.hpp"
int main(int, char **argv)
{
    Partner partner(std::atoi(argv[1]), 4);
    std::cout << "listens" << std::endl;
    std::vector<double> tau(2);
    while (partner.receive(3000) && partner.time < 0.4985) {
        const auto &x = partner.values;
        tau[0] = 1000.0 * (1.0 - x[0]) - 15.0 * x[2];
        tau[1] = 1000.0 * (1.5 - x[1]) - 15.0 * x[3];
        if (!partner.send(tau))
            return 2;
    }
    return partner.time > 0.49 ? 0 : 3;
}
"""


def wired(other, block, **start):
    """Return the robot of planar2ctrl, and the part that provides its torques."""
    system = System()
    system.add("robot", parts()["robot"])
    system.add(other, block, **start)
    system.connect("robot.q", f"{other}.q")
    system.connect("robot.qd", f"{other}.qd")
    system.connect(f"{other}.tau", "robot.tau")
    return system


def link_to(peer, listen):
    motion = [Port("q", (2,), "rad"), Port("qd", (2,), "rad/s")]
    tau = Port("tau", (2,), "N.m")
    return UdpLink(motion, [tau], peer=peer, listen=listen, lock_step=True, timeout=20.0)


def compiled_controller(folder, headers):
    """Compile the partner from the sources of the example and the header of the link."""
    (folder / "controller.cpp").write_text(CONTROLLER)
    strict = ("-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror")
    where = (f"-I{EXAMPLE / 'src'}", f"-I{headers}")
    command = ["g++", *strict, *where, "controller.cpp", "-o", "controller"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "controller"


@pytest.mark.slow
def test_ros2_hardware_interface_controls_the_robot_of_a_program(tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    peer, listen = free_ports(2)
    system = wired("link", link_to(peer, listen))
    program = build_runner(system, tmp_path / "arm", DT)
    headers = build_runner(system, tmp_path / "src", DT, platform="source")
    start = [compiled_controller(tmp_path, headers), peer.partition(":")[2]]
    with subprocess.Popen(start, stdout=subprocess.PIPE, text=True) as controller:
        assert controller.stdout.readline() == "listens\n"
        options = ["--stop", "0.499", "--rate", "0", "--record", tmp_path / "run.csv"]
        done = subprocess.run([program, *options], capture_output=True, text=True, check=True)
        assert controller.wait(timeout=60) in (0, 3)
    report = json.loads(done.stdout.removeprefix("ready\n"))["links"]["link"]
    assert report["received"] == report["sent"] == 499
    with open(tmp_path / "run.csv") as file:
        head, *rows = csv.reader(file)
    values = np.array(rows, float)
    inside = wired("pd", parts()["pd"], start={"q_ref": [1.0, 1.5]})
    expected = simulate(inside, 0.499, DT, progress=False)
    for k, name in enumerate(("robot.q[1]", "robot.q[2]")):
        assert_allclose(values[:, head.index(name)], expected["robot.q"][:, k], atol=1e-12)


def test_files_of_the_ros2_package_use_consistent_class_and_library_names():
    texts = {path.name: path.read_text() for path in EXAMPLE.rglob("*") if path.is_file()}
    name = "rigidblocks_hardware::RunnerSystem"
    assert f"PLUGINLIB_EXPORT_CLASS({name}," in texts["hardware.cpp"]
    assert f'type="{name}"' in texts["rigidblocks_hardware.xml"]
    assert "<name>rigidblocks_hardware</name>" in texts["package.xml"]
    assert "project(rigidblocks_hardware " in texts["CMakeLists.txt"]
