"""Robot models: trees of joints and bodies, loops, shapes and configurations (RBDA chapter 4)."""
