"""Runs of systems and their results."""
