"""Stored conversations in one SQLite file."""
