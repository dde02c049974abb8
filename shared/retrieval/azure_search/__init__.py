"""The retriever of Azure AI Search."""
