"""The hooks of azd that only check. They need no library, and install none."""
