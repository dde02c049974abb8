"""The Model seam (`base`), the router and the adapters. May import `chat`, `text` and `azure`."""
