"""Tests of `shared/ingest/`."""
