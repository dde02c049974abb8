"""Stored conversations in Azure Cosmos DB for NoSQL."""
