"""What is measured, and how: each file is a command that prints its figures."""
