"""Splits documents into passages."""
