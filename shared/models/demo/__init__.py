"""The demo model, which runs inside the app and quotes the sources."""
