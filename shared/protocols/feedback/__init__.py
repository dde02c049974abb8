"""Feedback: whether an answer helped, and why not."""
