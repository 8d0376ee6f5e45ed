"""Contact shapes that consist of other shapes: cones, and shapes defined outside the package."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import System, World, box_inertia, load_model, save_model, simulate
from rigidblocks.block.block import Record, call
from rigidblocks.contact import Cone, ConvexHull, Plane, Shape, Sphere
from rigidblocks.contact.shape_distance import proximity
from rigidblocks.contact.shape_tables import shape_rows
from rigidblocks.library.plant_from_file import described_plant
from rigidblocks.robot.robots import planar2
from rigidblocks.robot.shapes import CONE_SIDES
from rigidblocks.spatial.spatial import Transform, identity, rotx, roty, xlt
from rigidblocks.view.visual_geometry import shape_solids

RADIUS, HEIGHT = 0.3, 0.8
DT = 2e-3
FALL = 9.81 * DT**2  # [m] free fall during one sample


@dataclass(frozen=True, eq=False)
class Dumbbell(Shape):
    """Two balls at the ends of a bar along x, defined outside the package."""

    radius: float
    length: float
    placement: Transform = field(default_factory=identity)

    @property
    def points(self):
        ends = np.array([[-self.length / 2, 0.0, 0.0], [self.length / 2, 0.0, 0.0]])
        return ends @ self.placement.E + self.placement.r

    @property
    def reach(self):
        return self.radius

    def primitives(self):
        return tuple(Sphere(self.radius, p, material=self.material) for p in self.points)

    def transform(self, X):
        return replace(self, placement=self.placement @ X.inverse())


def rest(shape, at):
    """Return the final height [m] of a body with a shape that falls on a plane, and its speed.

    The speed [m/s] is the mean speed of the last half second.
    """
    world = World("falling")
    world.add_body("body", box_inertia((0.3, 0.3, 0.3), mass=2.0), [shape], at=at)
    world.add_ground(Plane())
    system = System()
    system.add("world", world.plant(sample_time=DT))
    result = simulate(system, 1.0, DT, progress=False)
    half_second_ago, end = (result["world.body_q"][k, 4:] for k in (-1 - round(0.5 / DT), -1))
    return end[2], np.linalg.norm(end - half_second_ago) / 0.5


@pytest.mark.slow
def test_body_with_a_user_defined_shape_rests_on_the_primitives_of_the_shape():
    height, speed = rest(Dumbbell(0.1, 0.6), (0.0, 0.0, 0.15))
    assert height == pytest.approx(0.1, abs=FALL)  # of the centres above the ground
    assert speed < 1e-5


@pytest.mark.slow
def test_cone_rests_on_its_base():
    height, speed = rest(Cone(RADIUS, HEIGHT), (0.0, 0.0, HEIGHT / 2 + 0.05))
    assert height == pytest.approx(HEIGHT / 2, abs=FALL)
    assert speed < 1e-5


def test_primitives_of_a_transformed_shape_have_transformed_centres():
    X = rotx(0.7) @ xlt([0.1, -0.2, 0.3])
    shape = Dumbbell(0.1, 0.6).transform(X)
    rows = list(shape_rows(shape))
    assert len(rows) == 2
    centres = np.array([placement.r for _, placement in rows])
    expected = [X.E @ (p - X.r) for p in Dumbbell(0.1, 0.6).points]
    assert_allclose(centres, expected, atol=1e-15)


@pytest.mark.parametrize("tilt", np.linspace(0.0, np.pi, 9))
def test_distance_of_a_cone_to_a_plane_matches_its_closed_form(tilt):
    """The lowest point is the apex, or the point of the base circle that is lowest.

    The pyramid is inscribed; its distance exceeds the distance of the cone by at most
    r (1 - cos(pi / n)) sin(tilt).
    """
    X = roty(tilt) @ xlt([0.0, 0.0, 1.0])
    found = proximity(Cone(RADIUS, HEIGHT), X, Plane(), identity()).gap
    c, s = np.cos(tilt), np.sin(tilt)
    exact = 1.0 + min(HEIGHT / 2 * c, -HEIGHT / 2 * c - RADIUS * abs(s))
    error = RADIUS * (1 - np.cos(np.pi / CONE_SIDES)) * abs(s)
    assert -1e-12 <= found - exact <= error + 1e-12


def test_user_defined_shape_is_drawn_and_saved_as_its_primitives(tmp_path):
    shapes = [Dumbbell(0.1, 0.6), Cone(RADIUS, HEIGHT)]
    kinds = [solid.kind for solid in shape_solids(shapes, 0, (1.0, 0.0, 0.0))]
    assert kinds == ["sphere", "sphere", "mesh"]
    model = replace(planar2(), contact=((), tuple(shapes)))
    save_model(model, tmp_path / "robot.json")
    loaded = load_model(tmp_path / "robot.json").model.contact[1]
    assert [type(one) for one in loaded] == [Sphere, Sphere, ConvexHull]
    assert_allclose(loaded[0].centre, [-0.3, 0.0, 0.0])
    assert_allclose(loaded[2].points, shapes[1].points)


@dataclass(frozen=True, eq=False)
class Rocket(Shape):
    """Cone above a dumbbell: both consist of other shapes."""

    @property
    def points(self):
        return np.vstack([one.points for one in self.primitives()])

    def primitives(self):
        return (Cone(RADIUS, HEIGHT), Dumbbell(0.1, 0.6))

    def transform(self, X):
        raise NotImplementedError


def test_shape_that_contains_composite_shapes_is_drawn_and_saved_as_primitives(tmp_path):
    kinds = [solid.kind for solid in shape_solids([Rocket()], 0, (1.0, 0.0, 0.0))]
    assert kinds == ["mesh", "sphere", "sphere"]
    model = replace(planar2(), contact=((), (Rocket(),)))
    save_model(model, tmp_path / "robot.json")
    loaded = load_model(tmp_path / "robot.json").model.contact[1]
    assert [type(one) for one in loaded] == [ConvexHull, Sphere, Sphere]


def test_cone_of_an_sdf_file_is_a_contact_shape(tmp_path):
    geometry = "<geometry><cone><radius>0.3</radius><length>0.8</length></cone></geometry>"
    inertia = "<ixx>1</ixx><iyy>1</iyy><izz>1</izz><ixy>0</ixy><ixz>0</ixz><iyz>0</iyz>"
    (tmp_path / "cone.sdf").write_text(
        "<sdf version='1.11'><model name='cone'><link name='body'>"
        f"<inertial><mass>1</mass><inertia>{inertia}</inertia></inertial>"
        f"<collision name='c'><pose>0 0 0.1 0 0 0</pose>{geometry}</collision></link></model></sdf>"
    )
    robot = load_model(tmp_path / "cone.sdf", floating=True)
    shape = next(shape for shapes in robot.model.contact for shape in shapes)
    assert isinstance(shape, Cone)
    assert_allclose(shape.points[-1], [0.0, 0.0, 0.5], atol=1e-15)
    assert robot.warnings == () or not any("cone" in text for text in robot.warnings)


def test_lidar_rays_of_an_sdf_file_hit_a_cone(tmp_path):
    """The sensor is 2 m from the axis of the cone, at half its height."""
    inertia = "<ixx>1</ixx><iyy>1</iyy><izz>1</izz><ixy>0</ixy><ixz>0</ixz><iyz>0</iyz>"
    inertial = f"<inertial><mass>1</mass><inertia>{inertia}</inertia></inertial>"
    (tmp_path / "cone.sdf").write_text(
        f"<sdf version='1.11'><model name='cone'><link name='a'>{inertial}"
        "<sensor name='scan' type='lidar'><lidar><scan><horizontal><samples>1</samples>"
        "</horizontal></scan><range><min>0.1</min><max>9</max></range></lidar></sensor></link>"
        f"<link name='b'><pose>2 0 0 0 0 0</pose>{inertial}<collision name='c'><geometry><cone>"
        "<radius>0.3</radius><length>0.8</length></cone></geometry></collision></link>"
        "<joint name='j' type='revolute'><parent>world</parent><child>a</child>"
        "<axis><xyz>0 0 1</xyz></axis></joint><joint name='k' type='fixed'><parent>world</parent>"
        "<child>b</child></joint></model></sdf>"
    )
    plant = described_plant(load_model(tmp_path / "cone.sdf"), sensors=True)
    p = Record({port.name: np.asarray(port.start) for port in plant.parameters})
    x, u = Record({"q": np.zeros(1), "qd": np.zeros(1)}), Record({"tau": np.zeros(1)})
    found = call(plant, "output", 0.0, x, u, p)["scan"]
    assert_allclose(found, [2.0 - 0.15], rtol=1e-12)  # the ray hits an edge of the pyramid


def test_cone_with_a_nonpositive_radius_or_height_is_rejected():
    with pytest.raises(ValueError, match="the height of a cone"):
        Cone(0.1, 0.0)
    with pytest.raises(ValueError, match="the radius of a cone"):
        Cone(-0.1, 1.0)
