"""How each kind of file is read: a file into its pages, by one library each."""
