"""Tests of `shared/rag/`."""
