"""Visualization of robots, runs and systems as self-contained web pages."""
