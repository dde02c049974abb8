"""The app under mixed load while the services behind it fail: `python -m bench.soak`."""
