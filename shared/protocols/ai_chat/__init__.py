"""The AI Chat Protocol in its three versions."""
