"""The application behind the routes: one answer path, seams behind it, protocols in front."""
