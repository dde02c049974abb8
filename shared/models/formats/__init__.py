"""The request and response formats of model servers."""
