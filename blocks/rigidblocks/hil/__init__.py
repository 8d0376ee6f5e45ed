"""Hardware-in-the-loop: links to other programs and devices, and real-time programs in C."""
