"""Recognises the hosts that are this machine, or in a private network."""

from ipaddress import ip_address
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Whether a host name, or an address without brackets, is loopback."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_local(url: str) -> bool:
    """Whether the host of a URL is this machine, or in a private network."""
    host = urlsplit(url).hostname or ""
    try:
        return is_loopback(host) or ip_address(host).is_private
    except ValueError:
        return False
