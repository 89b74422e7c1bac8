"""A small S3 server in this process, for what a mock cannot show: the requests that a client really sends.

Knows objects with ranges and conditional writes, multipart uploads, copies, bulk deletes and paged listings.
It accepts any credentials and every bucket.
"""

import hashlib
import http.server
import threading
import urllib.parse
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Self
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape


class FakeS3:
    """The server; use it as a context manager.

    `signed_by` are the access keys of `requests`, None for anonymous ones. `fail_with`, when set, is the
    status of every answer; `buckets` those that exist, when set; `cut_listings` the numbers of the listings,
    counted from when it is set, of which only half is sent. While `ignores_ranges` is set, a GET of a range
    is answered with 200 and the whole object, as HTTP allows.

    Args:
        conditional: Honour `If-None-Match` on writes; servers that do not overwrite silently.
        page: Entries in one answer to a listing.
    """

    def __init__(self, *, conditional: bool = True, page: int = 100) -> None:
        self.objects: dict[str, tuple[bytes, datetime]] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.requests: list[str] = []
        self.signed_by: list[str | None] = []
        self.conditional = conditional
        self.page = page
        self.fail_with: int | None = None
        self.ignores_ranges = False
        self.buckets: set[str] | None = None
        self._cut_listings: Sequence[int] = ()
        self.listings = 0
        self.lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"fake": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def cut_listings(self) -> Sequence[int]:
        return self._cut_listings

    @cut_listings.setter
    def cut_listings(self, numbers: Sequence[int]) -> None:
        self._cut_listings = numbers
        self.listings = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def options(self) -> dict[str, str]:
        """Storage options for it, ours and the peer's."""
        return {
            "aws_access_key_id": "test",
            "aws_secret_access_key": "verysecretvalue",
            "aws_region": "us-east-1",
            "aws_endpoint": self.endpoint,
            "allow_http": "true",
            "client_max_retries": "1",
        }

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    fake: FakeS3
    protocol_version = "HTTP/1.1"
    # Without it every answer waits for the client's delayed acknowledgement, 40 ms each.
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        pass

    def _begin(self) -> bool:
        parts = urllib.parse.urlsplit(self.path)
        self.key = urllib.parse.unquote(parts.path).strip("/") if "/" in parts.path.strip("/") else ""
        self.bucket = urllib.parse.unquote(parts.path).strip("/").partition("/")[0]
        self.query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        self.body = self._read_body()
        with self.fake.lock:
            self.fake.requests.append(f"{self.command} {self.path}")
            signature = self.headers.get("authorization", "")
            key = signature.partition("Credential=")[2].partition("/")
            self.fake.signed_by.append(key[0] if key[1] else None)
        if self.fake.fail_with is not None:
            self._error(
                self.fake.fail_with, "AccessDenied" if self.fake.fail_with == 403 else "InternalError"
            )
            return False
        if self.fake.buckets is not None and self.bucket not in self.fake.buckets:
            self._error(404, "NoSuchBucket")
            return False
        return True

    def _read_body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            return b"".join(iter(self._read_chunk, b""))
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        if "aws-chunked" not in self.headers.get("content-encoding", ""):
            return data
        chunks = []
        while data:
            head, _, data = data.partition(b"\r\n")
            size = int(head.split(b";")[0], 16)
            if size == 0:
                break
            chunks.append(data[:size])
            data = data[size + 2 :]
        return b"".join(chunks)

    def _read_chunk(self) -> bytes:
        size = int(self.rfile.readline().split(b";")[0], 16)
        data = self.rfile.read(size)
        self.rfile.readline()
        return data

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        if b"<ListBucketResult>" in body:
            cut = self.fake.listings in self.fake.cut_listings
            self.fake.listings += 1
            if cut:
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2])
                self.close_connection = True
                return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", headers.pop("length", str(len(body))))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _xml(self, body: str, status: int = 200) -> None:
        self._answer(status, b'<?xml version="1.0"?>' + body.encode(), content_type="application/xml")

    def _error(self, status: int, code: str) -> None:
        self._xml(f"<Error><Code>{code}</Code><Message>{code}</Message></Error>", status)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if not self._begin():
            return
        if not self.key:
            self._list()
            return
        found = self.fake.objects.get(self.key)
        if found is None:
            self._error(404, "NoSuchKey")
            return
        data, modified = found
        headers = {
            "etag": _etag(data),
            "last_modified": format_datetime(modified, usegmt=True),
            "accept_ranges": "bytes",
        }
        wanted = None if self.fake.ignores_ranges else self.headers.get("range")
        if wanted is None:
            if self.command == "HEAD":
                self.send_response(200)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                return
            self._answer(200, data, **headers)
            return
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(0, len(data) - int(last))
        stop = min(len(data), int(last) + 1) if first and last else len(data)
        if start >= len(data):
            self._error(416, "InvalidRange")
            return
        self._answer(206, data[start:stop], content_range=f"bytes {start}-{stop - 1}/{len(data)}", **headers)

    def do_PUT(self) -> None:
        if not self._begin():
            return
        if "uploadId" in self.query:
            self.fake.uploads[self.query["uploadId"]][int(self.query["partNumber"])] = self.body
            self._answer(200, etag=_etag(self.body))
            return
        source = self.headers.get("x-amz-copy-source")
        if source is None:
            self._store(self.body, lambda: self._answer(200, etag=_etag(self.body)))
            return
        found = self.fake.objects.get(urllib.parse.unquote(source).strip("/"))
        if found is None:
            self._error(404, "NoSuchKey")
            return
        stamp = found[1].isoformat()
        result = f"<CopyObjectResult><ETag>{_etag(found[0])}</ETag><LastModified>{stamp}</LastModified>"
        self._store(found[0], lambda: self._xml(result + "</CopyObjectResult>"))

    def _store(self, data: bytes, answer) -> None:
        with self.fake.lock:
            taken = (
                self.fake.conditional and "if-none-match" in self.headers and self.key in self.fake.objects
            )
            if not taken:
                self.fake.objects[self.key] = (data, datetime.now(UTC))
        if taken:
            self._error(412, "PreconditionFailed")
        else:
            answer()

    def do_POST(self) -> None:
        if not self._begin():
            return
        if "delete" in self.query:
            self._delete_many()
        elif "uploads" in self.query:
            upload = uuid.uuid4().hex
            self.fake.uploads[upload] = {}
            self._xml(
                "<InitiateMultipartUploadResult>"
                f"<Bucket>{self.bucket}</Bucket><Key>{escape(self.key)}</Key><UploadId>{upload}</UploadId>"
                "</InitiateMultipartUploadResult>"
            )
        else:
            parts = self.fake.uploads.pop(self.query["uploadId"])
            data = b"".join(parts[number] for number in sorted(parts))
            self._store(
                data,
                lambda: self._xml(
                    f"<CompleteMultipartUploadResult><Bucket>{self.bucket}</Bucket>"
                    f"<Key>{escape(self.key)}</Key><ETag>{_etag(data)}</ETag></CompleteMultipartUploadResult>"
                ),
            )

    def do_DELETE(self) -> None:
        if not self._begin():
            return
        if "uploadId" in self.query:
            self.fake.uploads.pop(self.query["uploadId"], None)
        else:
            self.fake.objects.pop(self.key, None)
        self._answer(204)

    def _delete_many(self) -> None:
        gone = []
        for node in ET.fromstring(self.body).iter():
            if node.tag.endswith("Key"):
                self.fake.objects.pop(f"{self.bucket}/{node.text}", None)
                gone.append(f"<Deleted><Key>{escape(node.text or '')}</Key></Deleted>")
        self._xml(f"<DeleteResult>{''.join(gone)}</DeleteResult>")

    def _list(self) -> None:
        lead = self.query.get("prefix", "")
        token = self.query.get("continuation-token")
        after = bytes.fromhex(token).decode() if token else self.query.get("start-after", "")
        delimiter = self.query.get("delimiter", "")
        limit = min(self.fake.page, int(self.query.get("max-keys", self.fake.page)))
        bucket = self.bucket + "/"
        with self.fake.lock:
            keys = sorted(key.removeprefix(bucket) for key in self.fake.objects if key.startswith(bucket))
        entries: dict[str, str] = {}
        last = ""
        more = False
        for key in keys:
            if not key.startswith(lead) or key <= after:
                continue
            if len(entries) >= limit:
                more = True
                break
            last = key
            rest = key[len(lead) :]
            if delimiter and delimiter in rest:
                common = lead + rest.split(delimiter)[0] + delimiter
                entries[common] = f"<CommonPrefixes><Prefix>{self._text(common)}</Prefix></CommonPrefixes>"
                continue
            data, modified = self.fake.objects[bucket + key]
            entries[key] = (
                f"<Contents><Key>{self._text(key)}</Key><Size>{len(data)}</Size><ETag>{_etag(data)}</ETag>"
                f"<LastModified>{modified.strftime('%Y-%m-%dT%H:%M:%S.%f')[:-3]}Z</LastModified></Contents>"
            )
        encoding = self.query.get("encoding-type")
        self._xml(
            f"<ListBucketResult><Name>{self.bucket}</Name><Prefix>{self._text(lead)}</Prefix>"
            + (f"<EncodingType>{encoding}</EncodingType>" if encoding else "")
            + f"<KeyCount>{len(entries)}</KeyCount><MaxKeys>{limit}</MaxKeys>"
            + f"<IsTruncated>{str(more).lower()}</IsTruncated>"
            + (f"<NextContinuationToken>{last.encode().hex()}</NextContinuationToken>" if more else "")
            + f"{''.join(entries.values())}</ListBucketResult>"
        )

    def _text(self, key: str) -> str:
        return escape(urllib.parse.quote(key) if self.query.get("encoding-type") == "url" else key)


def _etag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'
