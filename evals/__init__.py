"""Measures how good the answers of a running app are. Never deployed."""
