"""Tests of the app as a server, through its HTTP routes."""
