"""CPU time of rays to single shapes and to a whole scene, compared with MuJoCo's mj_ray.

    python benchmarks/rays.py [number of rays]

A C program calls `rb_nearest_hit` of `c/algorithms/ray_casting.h` and `mj_ray` in alternation, with
the same rays and with -O2. The table contains the median CPU time per ray of 21 blocks, the ratio,
the share of rays that hit, and the largest difference between the distances.
"""

import sys
import tempfile
from collections.abc import Iterator
from ctypes import CDLL, POINTER, c_double, c_int, c_void_p
from pathlib import Path
from subprocess import run
from typing import NamedTuple

import mujoco
import numpy as np

from rigidblocks.robot.ray_casting import NO_HIT, Obstacle, RayScene
from rigidblocks.robot_description.external_parsers import compiled_model
from rigidblocks.robot_description.sensor_elements import Names, _obstacles
from rigidblocks.tracing.ccode import c_text
from rigidblocks.tracing.ray_calls import scene_text

PROGRAM = """
#include <time.h>
#include <mujoco/mujoco.h>
{header}
{scene}
static double seconds(void)
{{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}}
void measure(const mjModel *m, const mjData *d, int n, const double *rays, double *own, double *mj,
             double *times)
{{
    double start = seconds();
    for (int k = 0; k < n; k++)
        own[k] = rb_nearest_hit(&{name}, rays + 6 * k, rays + 6 * k + 3).t;
    times[0] = (seconds() - start) / n;
    start = seconds();
    for (int k = 0; k < n; k++)
        mj[k] = mj_ray(m, d, rays + 6 * k, rays + 6 * k + 3, NULL, 1, -1, NULL, NULL);
    times[1] = (seconds() - start) / n;
}}
"""
BLOCKS = 21
HEADS = ["", "here", "mj_ray", "here / mj_ray"]
SPHERE = " ".join(
    f"{0.9 * np.sqrt(1 - z * z) * np.cos(2.4 * k):.6f} "
    f"{0.9 * np.sqrt(1 - z * z) * np.sin(2.4 * k):.6f} {0.9 * z:.6f}"
    for k, z in enumerate(np.linspace(-0.999, 0.999, 10_000))
)


def _hull(count: int) -> str:
    numbers = np.array(SPHERE.split()).reshape(-1, 3)
    return " ".join(numbers[:: len(numbers) // count].ravel())


SHAPES = {
    "sphere": '<geom type="sphere" size=".7"/>',
    "capsule": '<geom type="capsule" size=".4 .5"/>',
    "cylinder": '<geom type="cylinder" size=".6 .5"/>',
    "ellipsoid": '<geom type="ellipsoid" size=".5 .9 .7"/>',
    "box": '<geom type="box" size=".6 .5 .7"/>',
    "plane": '<geom type="plane" size="1 1 .1"/>',
    "hull of 64 vertices": '<geom type="mesh" mesh="hull"/>',
    "mesh of 20,000 triangles": '<geom type="mesh" mesh="fine"/>',
    "height field, 100 x 100": '<geom type="hfield" hfield="field"/>',
}
RANDOM = np.random.default_rng(2)
ALL = "".join(
    text.replace("/>", f' pos="{x} {y} {z}" euler="{10 * x} {20 * y} {30 * z}"/>')
    for text in [*list(SHAPES.values())[:-2]] * 5
    for x, y, z in [RANDOM.uniform(-4, 4, 3).round(3)]
)
ASSETS = f"""<asset><mesh name="hull" vertex="{_hull(64)}"/><mesh name="fine" vertex="{SPHERE}"/>
<hfield name="field" nrow="100" ncol="100" size="1 1 .5 .2" elevation="
{" ".join(f"{v:.4f}" for v in RANDOM.uniform(0, 1, 10_000))}"/></asset>"""


class Times(NamedTuple):
    """CPU times per ray [ns], share of rays that hit, and largest difference of the distances."""

    here: float
    mj_ray: float
    hits: float
    difference: float


def measure(geoms: str, spread: float, count: int, folder: Path) -> Times:
    """Return the times for one scene."""
    path = folder / "scene.xml"
    path.write_text(f"<mujoco>{ASSETS}<worldbody>{geoms}</worldbody></mujoco>")
    m = mujoco.MjModel.from_xml_path(str(path))
    d = mujoco.MjData(m)
    mujoco.mj_forward(m, d)
    found: list[Obstacle] = [one for _, one in _obstacles(compiled_model(path), NAMES, -1)]
    scene = RayScene(tuple(found))
    text = PROGRAM.format(
        header=c_text("algorithms/ray_casting.h"), scene=scene_text(scene), name=scene.name
    )
    source, library = folder / "rays.c", folder / f"{scene.name}.so"
    source.write_text(text)
    package = Path(mujoco.__file__).parent
    (shared,) = package.glob("libmujoco.so*")
    flags = ("-O2", "-ffp-contract=off", "-shared", "-fPIC", "-I", str(package / "include"))
    run(["cc", *flags, "-o", library, source, shared, "-lm"], check=True)
    function = CDLL(str(library)).measure
    rng = np.random.default_rng(1)
    p = spread * rng.normal(size=(count, 3))
    p *= np.maximum(1.0, spread / np.linalg.norm(p, axis=1, keepdims=True))
    target = 0.5 * spread * rng.normal(size=(count, 3)) - p
    rays = np.hstack([p, target / np.linalg.norm(target, axis=1, keepdims=True)])
    own, mj, times = np.empty(count), np.empty(count), np.empty((BLOCKS, 2))
    for row in times:
        function(
            c_void_p(m._address),
            c_void_p(d._address),
            c_int(count),
            *(one.ctypes.data_as(POINTER(c_double)) for one in (rays, own, mj, row)),
        )
    own[own >= NO_HIT] = -1.0
    here, there = 1e9 * np.median(times, axis=0)
    return Times(here, there, float((own >= 0).mean()), float(np.abs(own - mj).max()))


NAMES = Names(("",), (), ())


def scenes(count: int) -> Iterator[tuple[str, Times]]:
    """Yield the name and the times of each scene."""
    with tempfile.TemporaryDirectory() as folder:
        for name, geoms in SHAPES.items():
            away = geoms.replace("/>", ' pos=".1 .2 .3"/>')  # not in the frame of its body, for
            yield (
                name,
                measure(away, 1.5, count, Path(folder)),
            )  # which MuJoCo neglects small offsets
        yield "35 shapes", measure(ALL, 4.0, count, Path(folder))


def measured(count: int = 10_000) -> Iterator[list[str]]:
    """Yield the rows of the table."""
    for name, one in scenes(count):
        ratio = one.here / one.mj_ray
        yield [name, f"{one.here:.0f} ns", f"{one.mj_ray:.0f} ns", f"{ratio:.2f}"]


def main(count: int = 10_000) -> None:
    """Print the table."""
    print(f"{'shape':26} {'own':>8} {'mj_ray':>8}     ratio    hits   difference")
    for name, one in scenes(count):
        print(
            f"{name:26} {one.here:8.0f} {one.mj_ray:8.0f} ns {one.here / one.mj_ray:6.2f}   "
            f"{one.hits:5.0%}   {one.difference:.0e}"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
