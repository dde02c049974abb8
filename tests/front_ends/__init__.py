"""Chat pages of others, in a browser, against the app: `make test-front-ends`."""
