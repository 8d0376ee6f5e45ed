"""Dry friction that sticks, with a state: a law of force along one length."""

from dataclasses import dataclass
from typing import Any, ClassVar

from rigidblocks.algebra.scalar import within
from rigidblocks.dynamics.laws import Law, Number


@dataclass(frozen=True)
class Stiction(Law):
    """Dry friction that sticks: bristles without mass that bend until they slip (RBDA 11.8, along
    one length).

        f = -(K bend + D sd),  not below -coulomb nor above `backward`;  viscous sd comes on top
        d(bend)/dt = -(K bend + f) / D,  which is sd where it sticks

    Under a load below `coulomb` [N or N m] the length comes to rest, load / K from where it was,
    and stays there: nothing creeps. `backward` is the size of the friction where the length
    shrinks, the same unless given. `bend` is a state of the plant that has the element, with its
    energy K bend^2 / 2. K [N/m or N m/rad] and D [N s/m or N m s/rad] are those of the bristles, D
    positive; they are to be as stiff and as damped as the accuracy of the rest position and the
    steps of the integrator allow: an explicit one needs them below some 2.8 sqrt(m / K), 2.8 m / D
    and 2.8 D / K.
    """

    coulomb: Any
    K: Any
    D: Any
    viscous: Any = 0.0
    backward: Any = None
    bend: Any = 0.0
    quantities: ClassVar = {
        "coulomb": Number("force", "dry friction", 0.0),
        "K": Number("stiffness", "stiffness of the bristles", positive=True),
        "D": Number("damping", "damping of the bristles", positive=True),
        "viscous": Number("damping", "viscous friction", 0.0),
        "backward": Number("force", "dry friction where the length shrinks", 0.0),
    }
    remembers: ClassVar = {"bend": Number("length", "how far the bristles are bent")}

    def _sticking(self, sd: Any) -> Any:
        """The force that keeps it from slipping."""
        return -(self.K * self.bend + self.D * sd)

    @property
    def _largest(self) -> Any:
        return self.coulomb if self.backward is None else self.backward

    def _dry(self, sd: Any) -> Any:
        return within(self._sticking(sd), -self.coulomb, self._largest)

    def force(self, s: Any, sd: Any) -> Any:
        del s
        return self._dry(sd) - self.viscous * sd

    def rates(self, s: Any, sd: Any) -> dict[str, Any]:
        del s
        return {"bend": -(self.K * self.bend + self._dry(sd)) / self.D}

    def margins(self, s: Any, sd: Any) -> tuple[Any, ...]:
        del s
        force = self._sticking(sd)
        return force + self.coulomb, self._largest - force

    def energy(self, s: Any) -> Any:
        del s
        return self.K * self.bend * self.bend / 2

    def stiffest(self) -> tuple[float, float]:
        return self.K, self.D + self.viscous

    def decays(self) -> tuple[float, ...]:
        return (self.K / self.D,)
