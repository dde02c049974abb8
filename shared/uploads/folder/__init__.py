"""Uploads in a folder, for a laptop."""
