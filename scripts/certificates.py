"""Says what to do where Python trusts no certificate: python.org's on macOS comes without any."""

from __future__ import annotations

import sys

UNTRUSTED = (
    "{python} does not trust the server's certificate. On macOS, Python from python.org has no "
    'certificates at first: run "/Applications/Python {version}/Install Certificates.command". '
    "Behind a proxy that decrypts TLS, set SSL_CERT_FILE to a file with its certificate authority."
)


def untrusted_message() -> str:
    """The message for the operator."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return UNTRUSTED.format(python=sys.executable, version=version)
