"""An HTTP proxy in front of an object store that does to chosen requests what networks and servers do."""

import contextlib
import http.client
import http.server
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Self

FAULTS = ("delay", "error before", "error after", "reset", "no answer", "cut body")
"""What can happen to a request.

delay: it is answered late. error before: 503, and the server never saw it. error after: 503, but the server
has done it. reset: the connection is reset before the server saw it. no answer: the server has done it, and
the connection is reset. cut body: half of the answer's body, or of its head if it has none.
"""

REQUESTS = {
    "list": r"GET /.*[?&](list-type=2|comp=list)",
    "get manifest": r"GET /[^?]*/_versions/[^?]*\.manifest",
    "get data": r"GET /[^?]*/data/",
    "head": r"HEAD /",
    "put manifest": r"PUT /[^?]*/_versions/[^?]*\.manifest",
    "put transaction": r"PUT /[^?]*/_transactions/",
    "put data": r"PUT /[^?]*/data/",
    "put hint": r"PUT /[^?]*/_versions/[^?]*(latest|hint)",
    "delete": r"(POST /[^?]*\?delete|DELETE /|POST /[^?]*\?.*comp=batch)",
    "any": r"",
}
"""Requests of interest, as patterns of "METHOD /path?query"."""


@dataclass
class Rule:
    """A fault for some requests.

    Attributes:
        request: Pattern of "METHOD /path?query".
        fault: One of `FAULTS`.
        times: To how many it happens.
        after: How many are let through first.
        status: Of the errors.
        seconds: Of the delay.
        hits: To how many it has happened.
    """

    request: str
    fault: str
    times: int = 1
    after: int = 0
    status: int = 503
    seconds: float = 0.2
    hits: int = field(default=0)


class FaultProxy:
    """The proxy; use it as a context manager.

    Args:
        port: Of the server behind it, on loopback.
        strip: Request headers that are not passed on, in lower case.
    """

    def __init__(self, port: int, *, strip: tuple[str, ...] = ()) -> None:
        self.port = port
        self.strip = strip
        self.rules: list[Rule] = []
        self.requests: list[str] = []
        self.choose: Callable[[str], Rule | None] | None = None
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"proxy": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @contextlib.contextmanager
    def fault(self, request: str, fault: str, **options: float) -> Iterator[Rule]:
        """Let a fault happen to requests of one kind of `REQUESTS`."""
        rule = Rule(REQUESTS[request], fault, **options)
        self.rules.append(rule)
        try:
            yield rule
        finally:
            self.rules.remove(rule)

    def judge(self, line: str) -> Rule | None:
        """Note a request and find the fault for it."""
        with self._lock:
            self.requests.append(line)
            for rule in self.rules:
                if not re.match(rule.request, line):
                    continue
                if rule.after:
                    rule.after -= 1
                elif rule.hits < rule.times:
                    rule.hits += 1
                    return rule
            return self.choose(line) if self.choose else None


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_: object) -> None:
        """Clients go away in the middle all the time here."""


class _Handler(http.server.BaseHTTPRequestHandler):
    proxy: FaultProxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        pass

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _pass_on(self) -> None:
        body = self._body()
        rule = self.proxy.judge(f"{self.command} {self.path}")
        fault = rule.fault if rule else None
        if rule and fault == "delay":
            time.sleep(rule.seconds)
        if fault == "reset":
            self._reset()
            return
        if rule and fault == "error before":
            self._answer(rule.status, [], b"")
            return
        try:
            status, headers, answer = self._ask(body)
        except OSError:
            self._reset()
            return
        if fault == "no answer":
            self._reset()
        elif rule and fault == "error after":
            self._answer(rule.status, [], b"")
        else:
            self._answer(status, headers, answer, cut=fault == "cut body")

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):
            return self._pass_on
        raise AttributeError(name)

    def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        dropped = {"connection", "transfer-encoding", "content-length", "expect", *self.proxy.strip}
        # A connection for each request: one that is kept may be closed by the server at any moment.
        with contextlib.closing(
            http.client.HTTPConnection("127.0.0.1", self.proxy.port, timeout=60)
        ) as server:
            try:
                server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in dropped:
                        server.putheader(name, value)
                if body or self.command in {"PUT", "POST"}:
                    server.putheader("Content-Length", str(len(body)))
                server.endheaders(body or None)
                response = server.getresponse()
                return response.status, response.getheaders(), response.read()
            except http.client.HTTPException as error:
                raise OSError(str(error)) from error

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, *, cut: bool = False) -> None:
        length = str(len(body))
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() == "content-length":
                length = value
            elif name.lower() not in {"connection", "transfer-encoding"}:
                self.send_header(name, value)
        if status not in {204, 304}:
            self.send_header("Content-Length", length)
        if cut and not body:
            # The head itself ends in the middle.
            self._headers_buffer = [b"".join(self._headers_buffer)[:20]]
            self.flush_headers()
            self._reset()
            return
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self.wfile.flush()
            self.close_connection = True

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        # Nothing may be flushed to it any more.
        self.wfile = open("/dev/null", "wb")  # noqa: SIM115
        self.rfile.close()
