"""Documents of users, in the words of azure-search-openai-demo."""
