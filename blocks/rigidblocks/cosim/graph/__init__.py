"""Systems: parts, connections between their ports, and systems that become one block."""
