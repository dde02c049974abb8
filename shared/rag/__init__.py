"""The flow of an answer: follow-ups, retrieval, prompt, citations.

May import the seams (files, memory, models, retrieval) and what they import; no adapter.
"""
