"""The list of model providers: its schema, its loading and its redaction."""
