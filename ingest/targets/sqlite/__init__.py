"""Writes to the embedded index."""
