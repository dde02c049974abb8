"""Writes to an index of Azure AI Search."""
