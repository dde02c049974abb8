"""Tests of one module at a time, in this process, over fakes."""
