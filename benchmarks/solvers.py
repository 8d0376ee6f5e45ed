"""Solvers of rigid contact with Coulomb's cone on the same problems: work until convergence.

Projected Gauss-Seidel in three variants, ADMM and Newton's method solve the law of Signorini and
Coulomb. The variants of Gauss-Seidel are plain, with conjugate gradients, and as in
`RigidContactPlant`, which also has direct solutions for free bodies. ADMM has de Saxce's correction
(Carpentier, Le Lidec and Montaut 2024). Newton's method solves the nonsmooth equations of Alart and
Curnier (1991).

The convex relaxation separates sliding contacts with mu times their sliding speed. It is solved by
accelerated projected gradients (APGD; Mazhar, Heyn, Negrut and Tasora 2015), and with a compliance
by SAP (Castro, Permenter and Han 2022).

Work is counted in multiply-adds and listed in units of one sweep. It includes products with Y and
its transpose, sparse factorizations and solutions by their fill-in, and vector operations.
Operations per contact count only if a line search repeats them. The results are compared before
they are printed: the default solver with the plant, and all solvers with each other if the
velocities are unique.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from contact_cones import admm, apgd, newton, sap
from contact_laws import (
    Iterate,
    Local,
    Start,
    compliant_residual,
    convex_residual,
    coulomb_residual,
    local,
)
from contact_sweeps import ENOUGH, conjugate, gauss_seidel
from contact_together import default
from piles import H
from solver_problems import Problem, Scene, inverse_root, problem, problems, scenes

from rigidblocks import RigidContactPlant
from rigidblocks.block.memory_layout import Memory
from rigidblocks.kernels.compiled_stepper import compiled_stepper

MOST, ROUGH = 1000, 1e-3
AS_THE_PLANT, EQUAL, HARDER = 1e-5, 1e-4, 1e-7


class Rival(NamedTuple):
    """Solver, and a function for the residual of the contact law that it solves."""

    solve: Callable[[Problem, Start], Iterator[Iterate]]
    law: Callable[[Problem, Local, Iterate], float]


RIVALS = {
    "sweeps": Rival(gauss_seidel, coulomb_residual),
    "with conjugate gradients": Rival(conjugate, coulomb_residual),
    "here": Rival(default, coulomb_residual),
    "ADMM": Rival(admm, coulomb_residual),
    "Newton": Rival(newton, coulomb_residual),
    "APGD, convex": Rival(apgd, convex_residual),
    "SAP, convex and soft": Rival(sap, compliant_residual),
}
REFERENCE = "ADMM"  # its impulses are the warm start of all solvers of Coulomb's law
HEADS = [
    "",
    "contacts",
    *RIVALS,
    "opening velocity, APGD",
    "opening velocity, SAP",
    "closing velocity, SAP",
]


class Found(NamedTuple):
    """Last iterate, residual of the contact law, and work in sweeps to ROUGH and in total."""

    last: Iterate
    residual: float
    rough: float
    sweeps: float

    @property
    def holds(self) -> bool:
        return self.residual <= ENOUGH


def solved(rival: Rival, problem: Problem, start: Start = None) -> Found:
    """Iterate until the residual is below ENOUGH, or for a thousand sweeps."""
    here, rough = local(problem), np.inf
    for now in rival.solve(problem, start):
        residual, sweeps = rival.law(problem, here, now), now.work / problem.unit
        rough = min(rough, sweeps) if residual <= ROUGH else rough
        if residual <= ENOUGH or sweeps > MOST:
            break
    return Found(now, residual, rough, sweeps)


def carried(start: Iterate, before: Problem, now: Problem) -> Iterate:
    """Transfer the impulses of the previous step to the same contacts; new contacts have none."""
    at = {key: k for k, key in enumerate(before.keys)}
    p = [start.p[at[key]] if key in at else np.zeros(3) for key in now.keys]
    return start._replace(p=np.array(p))


def starts(cold: dict[str, Found], before: Problem, now: Problem) -> dict[str, Iterate]:
    """Return the warm start of each solver.

    Solvers of the same law as the reference start from the impulses of the reference, the other
    solvers from their own impulses. Each solver starts from its own velocities and penalty.
    """
    law, reference = RIVALS[REFERENCE].law, cold[REFERENCE].last
    return {
        who: carried(found.last._replace(p=reference.p) if RIVALS[who].law is law else found.last,
                     before, now)
        for who, found in cold.items()
    }  # fmt: skip


def reported(found: Found) -> str:
    """Format the work to reach ROUGH and ENOUGH, or the residual after a thousand sweeps."""
    end = f"{found.sweeps:,.0f}" if found.holds else f"no ({found.residual:.0e})"
    return f"{found.rough:,.0f} / {end}" if found.rough <= MOST else end


def parting(problem: Problem, found: Found) -> float:
    """Return the largest opening velocity of loaded contacts, over the fastest free velocity."""
    presses = found.last.p[:, 0] > 1e-6 * found.last.p.max()
    opening = problem.velocities(found.last.z)[presses, 0]
    return float(opening.max() / problem.fastest) if presses.any() else 0.0


def sinking(problem: Problem, found: Found) -> float:
    """Return the largest closing velocity of contacts, relative to the fastest free velocity."""
    return float(-problem.velocities(found.last.z)[:, 0].min() / problem.fastest)


def failing(problem: Problem, gradients: Found, sap: Found) -> Iterator[str]:
    """Yield the violation of Signorini's condition by the convex solvers that converged."""
    for of, found in ((parting, gradients), (parting, sap), (sinking, sap)):
        velocity = of(problem, found)
        yield (f"{velocity:.0e}" if velocity > ENOUGH else "-") if found.rough <= MOST else "no"


def as_the_plant(name: str, scene: Scene) -> None:
    """Check that the default solver reproduces the velocities of the plant's first step.

    The solver makes as many sweeps and the same direct solutions as the plant. The forces of the
    first step act over half a step.

    Raises:
        RuntimeError: If the velocities differ.
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
    """Check that the velocities of all converged solvers agree, if the velocities are unique.

    SAP has almost no compliance for this comparison.

    Raises:
        RuntimeError: If the velocities differ.
    """
    rigid = solved(Rival(lambda *given: sap(*given, part=HARDER), compliant_residual), problem)
    both = found | {list(RIVALS)[-1]: rigid}
    answers = {who: problem.velocities(one.last.z) for who, one in both.items() if one.holds}
    first = answers.pop(REFERENCE)
    off = {who: float(np.abs(one - first).max() / problem.fastest) for who, one in answers.items()}
    if max(off.values()) > EQUAL:
        raise RuntimeError(f"{name}: velocities are not equal: {off}")


def measured() -> Iterator[list[str]]:
    """Yield scene, number of contacts, and work of each solver with a cold and a warm start.

    The last columns are the violations of Signorini's condition by the convex solvers.
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
        work = (f"{reported(cold[who])}; {reported(warm[who])}" for who in RIVALS)
        yield [name, f"{before.n}", *work, *failing(before, *list(cold.values())[-2:])]


if __name__ == "__main__":
    for row in measured():
        print(" | ".join(row), flush=True)
