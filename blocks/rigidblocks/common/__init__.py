"""Helpers for all packages: documentation links, optional imports, display and charts."""
