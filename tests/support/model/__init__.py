"""Helpers of the tests over a real model."""
