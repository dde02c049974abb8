"""The chat page, a client of the app's own protocols, and what front ends ask about the app."""
