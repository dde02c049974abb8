"""Keeps uploads in a container of Azure Blob storage."""
