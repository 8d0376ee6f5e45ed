"""Co-simulation of systems, and recorded results."""
