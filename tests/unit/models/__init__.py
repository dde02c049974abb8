"""Tests of `shared/models/`."""
