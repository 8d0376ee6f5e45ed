"""Instances of imported FMUs of FMI 1.0, 2.0 and 3.0."""
