"""Systems: parts, connections between ports, and conversion of a system to one block."""
