"""Requests and responses: bodies under limits, JSON, who may call.

May import `domain`.
"""
