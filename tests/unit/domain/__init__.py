"""Tests of `shared/domain/`."""
