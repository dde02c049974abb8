"""Tests of `shared/chat/`."""
