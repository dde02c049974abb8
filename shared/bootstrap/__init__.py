"""Builds the service from the settings: chooses and makes the adapters.

May import everything but `ingest`.
"""
