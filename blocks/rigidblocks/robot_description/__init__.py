"""Robots from files in the formats URDF, SDF, MJCF and the JSON format of rigidblocks."""
