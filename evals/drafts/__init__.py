"""Drafts questions about the documents of an index, for a person to edit."""
