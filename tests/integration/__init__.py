"""Tests of an adapter with its real SDK, over a socket or a file."""
