"""OpenAI's chat completions, with the data sources of "Azure OpenAI On Your Data"."""
