"""Systems on a bench: links to what is outside, and programs that run without Python."""
