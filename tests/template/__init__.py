"""Tests of the template: infrastructure, documentation, packaging, conventions."""
