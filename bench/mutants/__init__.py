"""Faults that no test notices: `python -m bench.mutants`."""
