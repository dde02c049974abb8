"""Requests and responses: bodies under limits, sign-in, cross-origin policy, health.

May import `domain`.
"""
