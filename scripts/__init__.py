"""What azd runs around its own work: `postprovision.py`, with requirements of its own."""
