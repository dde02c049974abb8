"""Extracts terms and counts tokens. Imports no other folder."""
