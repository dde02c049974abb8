"""The Retriever seam (`base`) and its adapters. May import `chat`, `text` and `azure`."""
