"""Lets an indexer of Azure AI Search read the documents."""
