"""Master algorithms, which execute the communication steps of a system."""
