"""The Retriever seam (`base`) and its adapters. May import `domain`, `text` and `azure`."""
