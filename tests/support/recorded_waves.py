"""Short runs with sine signals for tests of recording."""

from rigidblocks import Sine, System


def waves(amplitude=(1.0, 2.0)):
    """Return a system with the outputs a.y (2,) and b.y (2,)."""
    system = System()
    for name in "ab":
        system.add(name, Sine(list(amplitude), [1.0, 0.5], phase=0.1))
    return system


def logs(folder):
    return sorted(path.name for path in folder.glob("*.arrow"))
