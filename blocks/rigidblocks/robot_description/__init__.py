"""Import of robots from URDF, SDF, MJCF and rigidblocks JSON files."""
