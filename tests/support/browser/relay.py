"""A relay in front of a server whose connections a test can cut, as a network does."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class Relay(socketserver.ThreadingTCPServer):
    """Relays connections to the server at `url`."""

    daemon_threads = True

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), Connection)
        self.target = ("127.0.0.1", urlsplit(url).port or 80)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.sockets = list[socket.socket]()

    def cut(self) -> None:
        """Cut all connections; new ones are accepted."""
        while self.sockets:
            with suppress(OSError):  # closed already
                self.sockets.pop().shutdown(socket.SHUT_RDWR)


class Connection(socketserver.BaseRequestHandler):
    """One connection of a client."""

    def handle(self) -> None:
        assert isinstance(self.server, Relay)
        with socket.create_connection(self.server.target) as upstream:
            self.server.sockets += [self.request, upstream]
            answers = threading.Thread(target=copy, args=(upstream, self.request))
            answers.start()
            copy(self.request, upstream)
            answers.join()


def copy(source: socket.socket, target: socket.socket) -> None:
    """Copy until the source ends or either is cut."""
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@contextmanager
def run_relay(url: str) -> Iterator[Relay]:
    """Run a relay until the block ends."""
    with Relay(url) as relay:
        threading.Thread(target=relay.serve_forever, daemon=True).start()
        yield relay
        relay.cut()
        relay.shutdown()
