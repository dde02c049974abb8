"""Builds the service from the settings: selects and creates the adapters.

May import everything but `ingest`.
"""
