"""Side files: large values of a data file in separate files, in a folder of its name beside it.

The name is the number of the side file in binary, lowest bit first: consecutive files are then far apart in
stores that partition by name.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from lance_ops.errors import FileMissingError, LanceOpsError, UnsupportedError
from lance_ops.file.io.fetch import Request, SideRequest
from lance_ops.storage import Store, StoreWriter

SUFFIX = ".blob"
_DATA_SUFFIX = ".lance"
_BITS = 32
_MAX_NUMBER = (1 << _BITS) - 1


def side_folder(data_path: str) -> str:
    """Return the folder of the side files of a data file."""
    return data_path.removesuffix(_DATA_SUFFIX)


def side_name(number: int) -> str:
    """Return the name of a side file within its folder."""
    return f"{number:0{_BITS}b}"[::-1] + SUFFIX


def data_file_of(side_path: str) -> str | None:
    """Return the data file of a side file, None for any other path."""
    folder, _, name = side_path.rpartition("/")
    bits = name.removesuffix(SUFFIX)
    if not folder or not name.endswith(SUFFIX) or len(bits) != _BITS or set(bits) - set("01"):
        return None
    return folder + _DATA_SUFFIX


def list_side_files(store: Store, data_path: str) -> Iterator[tuple[str, int]]:
    """Yield the path and size of each side file of a data file; other files have none."""
    if not data_path.endswith(_DATA_SUFFIX):
        return
    for info in store.list(side_folder(data_path)):
        if data_file_of(info.path) == data_path:
            yield info.path, info.size


def delete_with_side_files(store: Store, data_paths: Iterable[str]) -> None:
    """Delete data files with their side files."""
    paths = list(data_paths)
    found = [side for path in paths for side, _ in list_side_files(store, path)]
    store.delete_many([*paths, *found])


def read_with_side_files(
    store: Store,
    data_path: str,
    requests: Sequence[Request],
    read_own: Callable[[list[Request]], list[pa.Buffer]],
    open_base: Callable[[int], Store] | None = None,
) -> list[pa.Buffer]:
    """Serve requests to a data file, to its side files, and to objects in bases of the table.

    Args:
        store: Of the data file.
        data_path: Its path within the store.
        requests: Any mixture.
        read_own: Reads ranges of the data file itself.
        open_base: Returns the store of a base by its id.

    Returns:
        One buffer a request.
    """
    groups: dict[tuple[int | None, str | None], list[int]] = {}
    for number, request in enumerate(requests):
        key = (request.base, request.name) if isinstance(request, SideRequest) else (None, None)
        groups.setdefault(key, []).append(number)
    results = [pa.py_buffer(b"")] * len(requests)
    for (base, name), numbers in groups.items():
        ranges = [requests[number] for number in numbers]
        if name is None:
            found = read_own(ranges)
        elif base is None:
            found = store.read_ranges(f"{side_folder(data_path)}/{name}", ranges)
        elif open_base is None:
            raise UnsupportedError("managed blobs can only be read through their table", path=data_path)
        else:
            found = open_base(base).read_ranges(name, ranges)
        for number, buffer in zip(numbers, found, strict=True):
            results[number] = buffer
    return results


class SideFiles:
    """Side files of a data file that is being written.

    Args:
        store: Of the data file.
        data_path: Its path within the store.
        base_uris: Of the other bases of the table, by their ids: references may point there.
    """

    def __init__(self, store: Store, data_path: str, base_uris: Mapping[int, str] | None = None) -> None:
        self.base_uris = dict(base_uris or {})
        self._store = store
        self._folder = side_folder(data_path)
        self._paths: list[str] = []
        self._open: list[StoreWriter] = []

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of all side files started."""
        return tuple(self._paths)

    @property
    def size_bytes(self) -> int:
        """Bytes written to all of them."""
        return sum(output.tell() for output in self._open)

    def create(self) -> tuple[int, StoreWriter]:
        """Start the next side file.

        Returns:
            Its number, and its output, which the caller closes.

        Raises:
            LanceOpsError: There are no more numbers.
        """
        # Number 0 means none.
        number = len(self._paths) + 1
        if number > _MAX_NUMBER:
            raise LanceOpsError(
                "the data file has too many side files", path=self._folder, hint="write fewer rows per file"
            )
        path = f"{self._folder}/{side_name(number)}"
        output = self._store.open_writer(path)
        self._paths.append(path)
        self._open.append(output)
        return number, output

    def abort(self) -> None:
        """Remove all side files, also finished ones."""
        for output in self._open:
            output.abort()
        for path in self._paths:
            with contextlib.suppress(FileMissingError):
                self._store.delete(path)
