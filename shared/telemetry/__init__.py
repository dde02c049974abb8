"""The access log line, spans and OpenTelemetry. May import `domain`."""
