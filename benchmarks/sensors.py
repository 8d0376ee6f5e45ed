"""Sensor outputs of robots from MJCF files, compared with the sensor data of MuJoCo.

    python benchmarks/sensors.py [random states of each robot]

Two robots have a floating and a fixed base. The rays of two other robots hit simple shapes, meshes
and height fields. The table contains the largest error of each quantity, relative to values above
1. Contact is disabled.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from sensed_robots import MJCF_ARM, MJCF_FREE, MJCF_RAYS, largest_sensor_error, terrain_with_rays


def main(states: int = 10_000) -> None:
    """Print the largest error of each quantity."""
    worst: dict[str, float] = {}
    for text in (MJCF_FREE, MJCF_ARM, MJCF_RAYS, terrain_with_rays()):
        with tempfile.TemporaryDirectory() as folder:
            for name, error in largest_sensor_error(text, Path(folder), states).items():
                quantity = name.split()[1]
                worst[quantity] = max(worst.get(quantity, 0.0), error)
    for quantity, error in sorted(worst.items(), key=lambda one: -one[1]):
        print(f"{quantity:32} {error:.1e}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
