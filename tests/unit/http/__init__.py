"""Tests of `shared/http/`."""
