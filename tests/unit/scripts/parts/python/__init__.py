"""Unit tests of scripts/parts/python."""
