"""The tests. `fakes.py` holds the only doubles; golden files are typed by hand from the specs."""
