"""Tests of `scripts/parts/`."""
