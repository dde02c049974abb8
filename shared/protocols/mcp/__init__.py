"""The Model Context Protocol: the documents as tools and resources of other assistants."""
