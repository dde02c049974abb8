"""Tests of `shared/uploads/`."""
