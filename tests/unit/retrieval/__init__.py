"""Tests of `shared/retrieval/`."""
