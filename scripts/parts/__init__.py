"""Removes parts of the template: `make parts`, `make remove`, `make keep`. Never deployed."""
