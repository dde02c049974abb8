"""The Model seam (`base`), the router and the adapters. May import `domain`, `text` and `azure`."""
