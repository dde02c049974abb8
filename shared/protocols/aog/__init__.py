"""The chat service of AOG v0.2."""
