"""Removes Python code: what uses a name that is gone, then what nothing uses any more."""
