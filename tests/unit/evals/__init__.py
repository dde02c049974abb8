"""Tests of `evals/`."""
