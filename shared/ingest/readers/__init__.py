"""One reader for each kind of file: a file into its pages."""
