"""Solvers of rigid contact with Coulomb's cone on the same problems: the work until a law holds, in
sweeps, and which law.

Of Signorini and Coulomb: projected Gauss-Seidel, alone, with conjugate gradients, and as in
`RigidContactPlant`, which also solves for free bodies together, ADMM with de Saxce's correction
(Carpentier, Le Lidec and Montaut 2024), and Newton's method for the nonsmooth equations of Alart
and Curnier (1991). Of its convex relaxation, in which what slides parts with mu times its speed:
accelerated projected gradients (APGD; Mazhar, Heyn, Negrut and Tasora 2015), and with a compliance
SAP (Castro, Permenter and Han 2022).

Work is counted in multiply-adds: of products with Y and its transpose, of sparse factorizations and
solves by their fill, and of vectors; what is done for a contact by itself is not, but where a line
search repeats it. Answers are compared before they are shown: those of the default with the
plant's, and of all solvers with each other where velocities are unique.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from contact_cones import admm, apgd, newton, sap
from contact_laws import Iterate, Local, Start, convex, coulomb, local, soft
from contact_sweeps import ENOUGH, conjugate, gauss_seidel
from contact_together import default
from piles import H
from solver_problems import Problem, Scene, inverse_root, problem, problems, scenes

from rigidblocks import RigidContactPlant
from rigidblocks.block.memory import Memory
from rigidblocks.kernels.stepper import compiled_stepper

MOST, ROUGH = 1000, 1e-3
AS_THE_PLANT, EQUAL, HARDER = 1e-5, 1e-4, 1e-7


class Rival(NamedTuple):
    """A solver and the law that it solves, as a residual."""

    solve: Callable[[Problem, Start], Iterator[Iterate]]
    law: Callable[[Problem, Local, Iterate], float]


RIVALS = {
    "sweeps": Rival(gauss_seidel, coulomb),
    "with conjugate gradients": Rival(conjugate, coulomb),
    "here": Rival(default, coulomb),
    "ADMM": Rival(admm, coulomb),
    "Newton": Rival(newton, coulomb),
    "APGD, convex": Rival(apgd, convex),
    "SAP, convex and soft": Rival(sap, soft),
}
REFERENCE = "ADMM"  # whose impulses all start from that solve Coulomb's law
HEADS = ["", "contacts", *RIVALS, "presses and parts, APGD", "SAP", "sinks, SAP"]


class Found(NamedTuple):
    """The last iterate, by how much the law fails, and the work in sweeps, to ROUGH and in all."""

    last: Iterate
    residual: float
    rough: float
    sweeps: float

    @property
    def holds(self) -> bool:
        return self.residual <= ENOUGH


def solved(rival: Rival, problem: Problem, start: Start = None) -> Found:
    """Until the law holds, or for a thousand sweeps."""
    here, rough = local(problem), np.inf
    for now in rival.solve(problem, start):
        residual, sweeps = rival.law(problem, here, now), now.work / problem.unit
        rough = min(rough, sweeps) if residual <= ROUGH else rough
        if residual <= ENOUGH or sweeps > MOST:
            break
    return Found(now, residual, rough, sweeps)


def carried(start: Iterate, before: Problem, now: Problem) -> Iterate:
    """A solution of the step before, by contacts; those that are new have no impulse."""
    at = {key: k for k, key in enumerate(before.keys)}
    p = [start.p[at[key]] if key in at else np.zeros(3) for key in now.keys]
    return start._replace(p=np.array(p))


def starts(cold: dict[str, Found], before: Problem, now: Problem) -> dict[str, Iterate]:
    """From where each goes on: the impulses of the reference for all that solve its law, of their
    own for the others, with the velocities and the penalty that are its own.
    """
    law, reference = RIVALS[REFERENCE].law, cold[REFERENCE].last
    return {
        who: carried(found.last._replace(p=reference.p) if RIVALS[who].law is law else found.last,
                     before, now)
        for who, found in cold.items()
    }  # fmt: skip


def told(found: Found) -> str:
    """The work to ROUGH and to ENOUGH, or how far a thousand sweeps come."""
    end = f"{found.sweeps:,.0f}" if found.holds else f"no ({found.residual:.0e})"
    return f"{found.rough:,.0f} / {end}" if found.rough <= MOST else end


def parting(problem: Problem, found: Found) -> float:
    """The fastest that a contact opens which presses, over the fastest free velocity."""
    presses = found.last.p[:, 0] > 1e-6 * found.last.p.max()
    opening = problem.velocities(found.last.z)[presses, 0]
    return float(opening.max() / problem.fastest) if presses.any() else 0.0


def sinking(problem: Problem, found: Found) -> float:
    """The same of what goes on to close."""
    return float(-problem.velocities(found.last.z)[:, 0].min() / problem.fastest)


def failing(problem: Problem, gradients: Found, sap: Found) -> Iterator[str]:
    """By what velocity the convex ones that have come to an end fail Signorini's condition."""
    for of, found in ((parting, gradients), (parting, sap), (sinking, sap)):
        velocity = of(problem, found)
        yield (f"{velocity:.0e}" if velocity > ENOUGH else "-") if found.rough <= MOST else "no"


def as_the_plant(name: str, scene: Scene) -> None:
    """RuntimeError unless as many sweeps as the plant makes in its first step, with half of the
    forces as there and what is solved together between them, give its velocities.
    """
    same = problem(scene, scene.q0, np.zeros(scene.model.nv), H / 2)
    plant = RigidContactPlant(scene.model, scene.ground, mu=scene.mu, q0=scene.q0, sample_time=H,
                              max_contacts=2 * same.n)  # fmt: skip
    memory = Memory(plant)
    m, step = memory.start(), compiled_stepper(memory)
    step.initialize(m, 0.0)
    step.step(m, 0.0, H)
    made = zip(range(int(m[memory.where["sweeps_made"]][0])), default(same, None), strict=False)
    *_, (_, last) = made
    off = np.abs(inverse_root(scene.model, scene.q0) @ last.z - m[memory.where["qd"]]).max()
    if not off <= AS_THE_PLANT * same.fastest:
        raise RuntimeError(f"{name}: velocities are not those of the plant by {off:.1e}")


def check_equal(name: str, problem: Problem, found: dict[str, Found]) -> None:
    """RuntimeError unless all that hold the law have the same velocities, where these are unique,
    SAP with next to no compliance.
    """
    rigid = solved(Rival(lambda *given: sap(*given, part=HARDER), soft), problem)
    both = found | {list(RIVALS)[-1]: rigid}
    answers = {who: problem.velocities(one.last.z) for who, one in both.items() if one.holds}
    first = answers.pop(REFERENCE)
    off = {who: float(np.abs(one - first).max() / problem.fastest) for who, one in answers.items()}
    if max(off.values()) > EQUAL:
        raise RuntimeError(f"{name}: velocities are not equal: {off}")


def measured() -> Iterator[list[str]]:
    """Scene, contacts, the work of each solver from nothing and from the step before, and by what
    velocity the convex ones fail Signorini's condition.
    """
    for name, scene in scenes().items():
        if not scene.steps:
            as_the_plant(name, scene)
        before, now = problems(scene)
        cold = {who: solved(one, before) for who, one in RIVALS.items()}
        later = starts(cold, before, now)
        warm = {who: solved(one, now, later[who]) for who, one in RIVALS.items()}
        if scene.sticks:
            check_equal(name, before, cold)
        work = (f"{told(cold[who])}; {told(warm[who])}" for who in RIVALS)
        yield [name, f"{before.n}", *work, *failing(before, *list(cold.values())[-2:])]


if __name__ == "__main__":
    for row in measured():
        print(" | ".join(row), flush=True)
