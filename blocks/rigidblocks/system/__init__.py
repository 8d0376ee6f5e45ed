"""Parts wired port to port, and a whole system as one block."""
