"""The hooks of azd that only check: the variables before provisioning, the app after deployment."""
