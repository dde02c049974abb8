"""One reader for each file type; a reader turns a file into pages."""
