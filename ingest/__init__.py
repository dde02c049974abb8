"""Documents become passages that can be searched and cited. Needs `requirements-ingest.txt`."""
