"""OpenSearch's conversational search: memory, pipelines and search."""
