"""Robots from files: URDF, SDF, MJCF, and our own JSON."""
