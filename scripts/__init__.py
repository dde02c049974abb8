"""The hooks of azd, with their own requirements: `postprovision.py` is the entry point."""
