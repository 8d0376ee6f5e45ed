"""Robots from files in the formats URDF, SDF, MJCF and the rigidblocks JSON format."""
