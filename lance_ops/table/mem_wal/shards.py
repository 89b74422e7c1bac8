"""Shard manifests: what the writer of a shard has flushed, and where its log continues.

Every change is a new file with the next version number, put only if absent; the newest one counts. Names are
bit-reversed numbers. Source: MemWAL specification, "Shard Manifest".
"""

import json
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count, pairwise

import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_ops.errors import CorruptFileError, FileMissingError
from lance_ops.pb import mem_wal_pb2
from lance_ops.storage import Store

FOLDER = "_mem_wal"
_HINT = "version_hint.json"
_MANIFEST_NAME = re.compile(r"([01]{64})\.binpb")
GENERATION_NAME = re.compile(r"[0-9a-zA-Z]+_gen_([0-9]+)")
"""Name of the folder of a generation; also of one whose flush failed."""


def bit_reversed(number: int) -> str:
    """Return the 64 binary digits of a number, lowest first."""
    return format(number, "064b")[::-1]


def number_in(pattern: re.Pattern[str], name: str) -> int | None:
    """Return the bit-reversed number in a file name; None if the name has another form."""
    found = pattern.fullmatch(name)
    return None if found is None else int(found[1][::-1], 2)


@dataclass(frozen=True, slots=True)
class Generation:
    """A flushed generation: a dataset of its own in the folder of its shard.

    Attributes:
        number: Number of the generation, from 1.
        path: Folder, relative to the root of the table.
        rows: Rows in its data file, superseded ones included; None where the writer did not record it.
        size: Bytes of the rows in memory; None where the writer did not record it.
    """

    number: int
    path: str
    rows: int | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Shard:
    """The newest manifest of a shard.

    Attributes:
        id: Id of the shard.
        path: The manifest file, relative to the root of the table.
        version: Version of the manifest.
        writer_epoch: Epoch of the writer that owns the shard.
        replayed: Position of the last log entry that a generation covers; 0 for none.
        next_generation: Number of the generation that the writer fills.
        generations: Flushed generations in ascending order.
        is_sealed: The table is about to be dropped: no writer may claim the shard.
        message: The whole message.
    """

    id: uuid.UUID
    path: str
    version: int
    writer_epoch: int
    replayed: int
    next_generation: int
    generations: tuple[Generation, ...]
    is_sealed: bool
    message: mem_wal_pb2.RegionManifest

    @property
    def folder(self) -> str:
        """Folder of the shard, relative to the root of the table."""
        return f"{FOLDER}/{self.id}"


def list_shards(store: Store) -> list[Shard]:
    """Read the newest manifest of each shard, ordered by shard id.

    Args:
        store: Root of the table, or of one of its branches.

    Raises:
        CorruptFileError: A manifest is damaged.
        FileMissingError: A shard has log entries or generations, but no manifest.
    """
    found = []
    for name in store.list_dirs(FOLDER):
        try:
            shard_id = uuid.UUID(name)
        except ValueError:
            continue
        shard = read_shard(store, shard_id)
        if shard is not None:
            found.append(shard)
    return found


def read_shard(store: Store, shard_id: uuid.UUID) -> Shard | None:
    """Read the newest manifest of a shard; None for a folder that no writer has claimed yet.

    Raises:
        CorruptFileError: The manifest is damaged.
        FileMissingError: There are log entries or generations, but no manifest.
    """
    folder = f"{FOLDER}/{shard_id}"
    version = _newest_version(store, folder)
    if version:
        return _read_manifest(store, shard_id, version)
    left = next((item.path for item in store.list(folder) if "/manifest/" not in item.path), None)
    if left is None:
        return None
    raise FileMissingError(
        f"shard {shard_id} has no manifest, but other files such as {left}",
        path=f"{store.uri}/{folder}/manifest",
        hint="restore the manifest folder of the shard: without it the order of its rows is unknown",
    )


def _newest_version(store: Store, folder: str) -> int:
    """Find the newest version from the hint on; from a listing if there is no usable hint."""
    hinted = _hinted_version(store, folder)
    if hinted and store.exists(_manifest_path(folder, hinted)):
        return next(n for n in count(hinted) if not store.exists(_manifest_path(folder, n + 1)))
    names = (item.path.rsplit("/", 1)[-1] for item in store.list(f"{folder}/manifest"))
    return max((number_in(_MANIFEST_NAME, name) or 0 for name in names), default=0)


def _hinted_version(store: Store, folder: str) -> int:
    try:
        hint = json.loads(store.read(f"{folder}/manifest/{_HINT}").to_pybytes())
        version = hint["version"]
    except (FileMissingError, ValueError, KeyError, TypeError):
        return 0
    return version if isinstance(version, int) and 0 < version < 1 << 64 else 0


def _manifest_path(folder: str, version: int) -> str:
    return f"{folder}/manifest/{bit_reversed(version)}.binpb"


def _read_manifest(store: Store, shard_id: uuid.UUID, version: int) -> Shard:
    folder = f"{FOLDER}/{shard_id}"
    path = _manifest_path(folder, version)
    try:
        message = mem_wal_pb2.RegionManifest.FromString(store.read(path).to_pybytes())
    except DecodeError as error:
        raise _damaged(store, path, f"the shard manifest cannot be decoded: {error}", "message") from error
    if message.version != version:
        raise _damaged(store, path, f"the shard manifest has version {message.version}", "version")
    if message.region_id.uuid != shard_id.bytes:
        raise _damaged(store, path, "the shard manifest has the id of another shard", "shard_id")
    generations = tuple(
        Generation(
            item.generation,
            f"{folder}/{item.path}",
            item.physical_rows if item.HasField("physical_rows") else None,
            item.in_memory_bytes if item.HasField("in_memory_bytes") else None,
        )
        for item in message.flushed_generations
    )
    numbers = [item.number for item in generations]
    if any(after <= before for before, after in pairwise(numbers)) or (
        numbers and not 0 < numbers[0] <= numbers[-1] < message.current_generation
    ):
        raise _damaged(
            store,
            path,
            f"the generations {numbers} do not ascend below {message.current_generation}",
            "flushed_generations",
        )
    for item in message.flushed_generations:
        named = GENERATION_NAME.fullmatch(item.path)
        if named is None or int(named[1]) != item.generation:
            raise _damaged(
                store, path, f"generation {item.generation} has the path {item.path!r}", "flushed_generations"
            )
    return Shard(
        shard_id,
        path,
        version,
        message.writer_epoch,
        message.replay_after_wal_entry_position,
        message.current_generation,
        generations,
        message.status == mem_wal_pb2.SEALED,
        message,
    )


def _damaged(store: Store, path: str, what: str, field: str) -> CorruptFileError:
    return CorruptFileError(
        what, path=f"{store.uri}/{path}", field=field, hint="restore the file from a copy of the table"
    )


def put_without(
    store: Store, shard: Shard, gone: Callable[[Generation], bool], *, put: Callable[[str, bytes], None]
) -> Sequence[Generation]:
    """Publish the next manifest of a shard, without some of its generations.

    Everything else stays: the epoch, so that the writer is not fenced, and the position of the log, so that
    nothing is replayed twice.

    Args:
        store: Root of the table.
        shard: Its newest manifest.
        gone: Returns whether a generation is removed.
        put: Puts a file if it is absent.

    Returns:
        The removed generations; nothing is published if there are none.

    Raises:
        AlreadyExistsError: The writer published the next manifest first.
    """
    removed = [item for item in shard.generations if gone(item)]
    if not removed:
        return ()
    message = mem_wal_pb2.RegionManifest()
    message.CopyFrom(shard.message)
    message.version = shard.version + 1
    numbers = {item.number for item in removed}
    kept = [item for item in message.flushed_generations if item.generation not in numbers]
    del message.flushed_generations[:]
    message.flushed_generations.extend(kept)
    put(_manifest_path(shard.folder, message.version), message.SerializeToString())
    hint = json.dumps({"version": message.version}).encode()
    store.put(f"{shard.folder}/manifest/{_HINT}", pa.py_buffer(hint))
    return removed
