"""The OpenAPI document of the app: what a program needs to know to call its routes."""
