"""Reads what users have uploaded: on a laptop from a folder, in Azure from a container."""
