"""The flow of an answer: follow-ups, retrieval, prompt, citations.

May import the folders above it.
"""
