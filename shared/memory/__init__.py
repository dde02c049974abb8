"""The seam of stored conversations (`base`) and its adapters. May import `domain` and `azure`."""
