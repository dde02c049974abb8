"""What is read: the documents of a folder and their access rules."""
