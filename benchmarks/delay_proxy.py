"""Latency proxy: HTTP requests reach a server on loopback, and answers the client, later than they would.

It runs in a process of its own, so that the interpreter that is measured does not do its work, and it notes
the requests: `GET /-/requests` tells those since it was asked last, and is none of them.

    python -m benchmarks.delay_proxy PORT SECONDS
"""

import asyncio
import contextlib
import http.client
import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import Self

_REPORT = "/-/requests"
_NO_BODY = (204, 304)


@dataclass(frozen=True, slots=True)
class Requests:
    """What a proxy has seen.

    Attributes:
        lines: "METHOD /path?query" of each request, in the order in which they came.
        spans: When each came and was answered, in seconds of the system's monotonic clock.
        most: How many were under way at once, at most.
        sent: Bytes of bodies that went to the server.
        received: Bytes of bodies that came from it.
    """

    lines: tuple[str, ...]
    spans: tuple[tuple[float, float], ...]
    most: int
    sent: int
    received: int

    def __len__(self) -> int:
        return len(self.lines)

    def by_method(self) -> Counter[str]:
        """How many there were of each kind; listings are apart from other GETs, bulk deletes from POSTs."""
        return Counter(map(_kind, self.lines))


def _kind(line: str) -> str:
    method, _, target = line.partition(" ")
    query = target.partition("?")[2]
    if method == "GET" and ("list-type=" in query or "comp=list" in query):
        return "LIST"
    if method == "POST" and query.startswith("delete"):
        return "DELETES"
    return method


class DelayProxy:
    """A proxy in a process of its own, for as long as the context lasts.

    Args:
        port: Of the server on loopback.
        seconds: What each request takes longer: half of it before the server sees it, half before the client
            sees the answer.
    """

    def __init__(self, port: int, seconds: float) -> None:
        command = [sys.executable, "-m", "benchmarks.delay_proxy", str(port), str(seconds)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._port = int(self._process.stdout.readline())

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            self._process.kill()

    def take(self) -> Requests:
        """The requests since this was called last."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        with contextlib.closing(connection):
            connection.request("GET", _REPORT)
            found = json.loads(connection.getresponse().read())
        return Requests(
            tuple(found["lines"]),
            tuple((came, went) for came, went in found["spans"]),
            found["most"],
            found["sent"],
            found["received"],
        )


class _Proxy:
    def __init__(self, port: int, seconds: float) -> None:
        self._port = port
        self._half = seconds / 2
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._forget()
        self._now = 0

    def _forget(self) -> None:
        self._lines: list[str] = []
        self._spans: list[list[float]] = []
        self._most = self._sent = self._received = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on the requests of one connection, one after the other."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while head := await _head(reader):
                method, target = head[0].split(b" ")[:2]
                line = f"{method.decode()} {target.decode()}"
                body = await _body(reader, head)
                if target.decode() == _REPORT:
                    writer.write(self._report())
                    await writer.drain()
                    continue
                answer = await self._pass_on(line, head, body)
                writer.write(answer)
                await writer.drain()
        writer.close()

    def _report(self) -> bytes:
        told = {
            "lines": self._lines,
            "spans": self._spans,
            "most": self._most,
            "sent": self._sent,
            "received": self._received,
        }
        body = json.dumps(told).encode()
        self._forget()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    async def _pass_on(self, line: str, head: list[bytes], body: bytes) -> bytes:
        self._lines.append(line)
        self._sent += len(body)
        self._now += 1
        self._most = max(self._most, self._now)
        began = time.monotonic()
        span = [began, began]
        self._spans.append(span)
        await asyncio.sleep(self._half)
        # Timers ring late on a busy machine, which is no latency of the network that is meant.
        late = time.monotonic() - began - self._half
        answer = await self._ask(line, head, body)
        await asyncio.sleep(max(0.0, self._half - late))
        self._now -= 1
        span[1] = time.monotonic()
        return answer

    async def _ask(self, line: str, head: list[bytes], body: bytes) -> bytes:
        lines = [part for part in head if not part.lower().startswith((b"transfer-encoding:", b"expect:"))]
        if len(lines) != len(head) and not any(part.lower().startswith(b"content-length:") for part in lines):
            lines.append(b"Content-Length: %d" % len(body))
        request = b"\r\n".join(lines) + b"\r\n\r\n" + body
        while True:
            kept = bool(self._idle)
            reader, writer = (
                self._idle.pop()
                if kept
                else await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 22)
            )
            try:
                writer.write(request)
                await writer.drain()
                answer_head = await _head(reader)
            except OSError:
                answer_head = []
            if answer_head or not kept:
                break
            # The server had closed it meanwhile, before it saw the request.
            writer.close()
        status = int(answer_head[0].split(b" ")[1])
        answer = b""
        if not line.startswith("HEAD ") and status not in _NO_BODY:
            answer = await _body(reader, answer_head)
        self._received += len(answer)
        self._idle.append((reader, writer))
        lines = [part for part in answer_head if not part.lower().startswith(b"transfer-encoding:")]
        if len(lines) != len(answer_head):
            lines.append(b"Content-Length: %d" % len(answer))
        return b"\r\n".join(lines) + b"\r\n\r\n" + answer


async def _head(reader: asyncio.StreamReader) -> list[bytes]:
    """The lines of a request's or an answer's head; none at the end of the connection."""
    try:
        text = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return []
    return text[:-4].split(b"\r\n")


async def _body(reader: asyncio.StreamReader, head: list[bytes]) -> bytes:
    fields = dict(line.lower().split(b":", 1) for line in head[1:])
    if fields.get(b"transfer-encoding", b"").strip() != b"chunked":
        return await reader.readexactly(int(fields.get(b"content-length", b"0")))
    chunks = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        chunks.append(await reader.readexactly(size))
        await reader.readline()
    await reader.readline()
    return b"".join(chunks)


async def _run(port: int, seconds: float) -> None:
    proxy = _Proxy(port, seconds)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=1 << 22, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    # Whoever started it holds the other end of its input: however that process ends, this one does, too.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_run(int(sys.argv[1]), float(sys.argv[2])))
