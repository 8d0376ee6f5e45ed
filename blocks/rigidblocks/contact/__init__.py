"""Contact and impact (RBDA chapter 11)."""

from rigidblocks.contact.beginning import beginning_phase
from rigidblocks.contact.between import (
    ContactPair,
    PairMotion,
    PairPoints,
    pair_motions,
    pair_points,
)
from rigidblocks.contact.complementarity import (
    Complementarity,
    QuadraticProgramme,
    acceleration_programme,
    complementarity,
    force_programme,
)
from rigidblocks.contact.impact import (
    Collision,
    Impact,
    collision,
    collision_with_friction,
    impact,
    impact_impulse,
)
from rigidblocks.contact.pairs import plane_contacts, sphere_contacts
from rigidblocks.contact.passive import passive_impulse
from rigidblocks.contact.phase import Motion, Phase, phase_motion
from rigidblocks.contact.points import BodyPoints, body_points, effective_mass, point_motion
from rigidblocks.contact.pyramid import frictional_complementarity, pyramid_forces
from rigidblocks.contact.rigid import (
    ContactEquation,
    ContactMotion,
    ContactUnknowns,
    contact_bias,
    contact_equation,
    contact_matrix,
    contact_unknowns,
    rigid_contact,
)
from rigidblocks.contact.sensor_tables import ContactSensor
from rigidblocks.contact.shared import shared_forces
from rigidblocks.contact.soft import (
    ContactForce,
    SoftLaw,
    SurfaceState,
    stable_step,
    wrench,
    zener_force,
)
from rigidblocks.contact.step import ContactStep, contact_step
from rigidblocks.contact.sweeps import contact_residual, projected_sweeps
from rigidblocks.contact.unilateral import ContactState, JointLimit, PointContact, contact_state
from rigidblocks.model.convex import Capsule, ConvexHull, Ellipsoid
from rigidblocks.model.hull import hull_vertices
from rigidblocks.model.material import Material, combined
from rigidblocks.model.mesh import TriangleMesh
from rigidblocks.model.shapes import (
    Box,
    Contact,
    Cylinder,
    HeightField,
    Plane,
    PointSet,
    Shape,
    Sphere,
    Surface,
    contact,
)

__all__ = [
    "BodyPoints",
    "Box",
    "Capsule",
    "Collision",
    "Complementarity",
    "Contact",
    "ContactEquation",
    "ContactForce",
    "ContactMotion",
    "ContactPair",
    "ContactSensor",
    "ContactState",
    "ContactStep",
    "ContactUnknowns",
    "ConvexHull",
    "Cylinder",
    "Ellipsoid",
    "HeightField",
    "Impact",
    "JointLimit",
    "Material",
    "Motion",
    "PairMotion",
    "PairPoints",
    "Phase",
    "Plane",
    "PointContact",
    "PointSet",
    "QuadraticProgramme",
    "Shape",
    "SoftLaw",
    "Sphere",
    "Surface",
    "SurfaceState",
    "TriangleMesh",
    "acceleration_programme",
    "beginning_phase",
    "body_points",
    "collision",
    "collision_with_friction",
    "combined",
    "complementarity",
    "contact",
    "contact_bias",
    "contact_equation",
    "contact_matrix",
    "contact_residual",
    "contact_state",
    "contact_step",
    "contact_unknowns",
    "effective_mass",
    "force_programme",
    "frictional_complementarity",
    "hull_vertices",
    "impact",
    "impact_impulse",
    "pair_motions",
    "pair_points",
    "passive_impulse",
    "phase_motion",
    "plane_contacts",
    "point_motion",
    "projected_sweeps",
    "pyramid_forces",
    "rigid_contact",
    "shared_forces",
    "sphere_contacts",
    "stable_step",
    "wrench",
    "zener_force",
]
