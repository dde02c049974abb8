"""Says what to do where Python trusts no certificate: python.org's on macOS comes without any."""

from __future__ import annotations

import ssl
import sys

UNTRUSTED = (
    "{python} does not trust the server's certificate. On macOS, Python from python.org has no "
    'certificates at first: run "/Applications/Python {version}/Install Certificates.command". '
    "Behind a proxy that decrypts TLS, set SSL_CERT_FILE to a file with its certificate authority."
)


def is_untrusted(error: BaseException | None) -> bool:
    """Whether an error, or one that caused it, is a certificate that Python does not trust."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def untrusted_message() -> str:
    """The message for the operator."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return UNTRUSTED.format(python=sys.executable, version=version)
