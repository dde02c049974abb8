"""Tests of `shared/files/`."""
