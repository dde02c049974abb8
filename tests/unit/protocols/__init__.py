"""Tests of `shared/protocols/`."""
