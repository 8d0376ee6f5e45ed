"""Runs of systems, and what they leave."""
