"""Attacks on the app, each with what the app promises. Deleting this folder removes them."""
