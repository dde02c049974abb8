"""One folder for each protocol: its routes, requests, responses and errors.

May import `rag` and what `rag` may.
"""
