"""Words and tokens of a text. Imports no other folder."""
