"""Dispatches calls, writes responses and streams. May import `protocols` and what these may."""
