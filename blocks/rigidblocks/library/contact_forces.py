"""The forces of contact, body by body."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.block.record import near
from rigidblocks.contact.points import BodyPoints, body_points
from rigidblocks.model.model import Model


@dataclass(frozen=True, eq=False)
class ContactForces(Block):
    """The forces of contact on named bodies of a robot, as a force sensor under each would have
    them.

        `force_<body>` = sum of f_k over the contact points k of the body

    The input `force` (n, 3) [N] has the forces at all contact points, in the order of the bodies,
    as `ContactPlant` and `GroundContact` have it; for a body named `foot` the output is
    `force_foot` (3,) [N]; both in base coordinates. Without names there is an output for each
    body that has contact points.

    Raises ValueError for a body that the model does not have, that has no contact points, or is
    named twice, and for a name that can be no port's.
    """

    model: Model
    bodies: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names, points = self.model.body_names, self._points
        touching = tuple(dict.fromkeys(names[i] for i in points.body))
        object.__setattr__(self, "bodies", tuple(self.bodies) or touching)
        for body in self.bodies:
            if body not in touching:
                raise ValueError(
                    f"body {body!r} of model '{self.model.name}' has no contact points; those that "
                    f"have some: {', '.join(touching)}{near(str(body), touching)}"
                )
            if not body.isidentifier():
                raise ValueError(
                    f"a body whose contact force is an output needs a name of letters, digits and "
                    f"_, with no digit first, not '{body}'"
                )
        if len(set(self.bodies)) < len(self.bodies):
            raise ValueError(f"contact forces need each body once, not {list(self.bodies)}")

    @cached_property
    def _points(self) -> BodyPoints:
        return body_points(self.model)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """force (n, 3)."""
        n = len(self._points.body)
        text = "force on the body at each contact point, base coordinates"
        return (Port("force", (n, 3), "N", text),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """force_<body> (3,) for each body."""
        text = "force of contact on {}, base coordinates"
        return tuple(Port(f"force_{b}", (3,), "N", text.format(b)) for b in self.bodies)

    def output(self, u: Record) -> Values:
        of = [self.model.body_names[i] for i in self._points.body]
        return {
            f"force_{body}": _sum([u.force[k] for k, one in enumerate(of) if one == body])
            for body in self.bodies
        }


def _sum(forces: list[Any]) -> Any:
    total = np.zeros(3)
    for force in forces:
        total = total + force
    return total
