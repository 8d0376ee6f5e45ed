"""Version of the package, its folder, and the time of its import."""

from pathlib import Path
from time import time

__version__ = "0.1.0"
FOLDER = Path(__file__).parents[1]
IMPORT_TIME = time()  # [s]; kernels of source files that changed after this time are not cached
