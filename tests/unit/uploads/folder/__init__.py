"""Tests of `shared/uploads/folder/`."""
