"""Robot-dynamics simulation blocks for co-simulation."""

__version__ = "0.1.0"
