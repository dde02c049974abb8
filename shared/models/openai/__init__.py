"""The client of OpenAI-compatible servers and the model behind it."""
