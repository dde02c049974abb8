"""Tests of `ingest/`."""
