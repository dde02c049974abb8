"""Identity, retries and error mapping that all clients of Azure share. May import `domain`."""
