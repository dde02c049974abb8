"""The embedded retriever: full-text search and vectors in SQLite."""
