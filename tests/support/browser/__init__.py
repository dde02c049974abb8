"""What the tests of pages in a browser share."""
