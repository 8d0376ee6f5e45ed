"""Instances of imported FMI 1.0, 2.0 and 3.0 FMUs."""
