"""Tests of `shared/azure/`."""
