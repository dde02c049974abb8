"""Tests of `shared/app/`."""
