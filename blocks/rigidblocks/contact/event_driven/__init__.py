"""Contact and impact as complementarity problems (RBDA chapter 11)."""
