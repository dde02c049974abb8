"""Tests of `shared/text/`."""
