"""Ordered maps from words to numbers as finite state transducers: the token sets of newer releases.

Nodes are read one by one where a word is looked up (`fst_nodes`), and by a
compiled loop where all words are listed.
"""

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.kernels.index import fst, fst_words
from lance_ops.errors import CorruptFileError
from lance_ops.index.inverted.fst_nodes import DamageError, Node, read_node

_VERSIONS = (1, 2, 3)
_HEADER = struct.Struct("<QQ")
_FOOTER = struct.Struct("<QQ")
_CHECKSUM_BYTES = 4
_COMMON = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG"
"""Bytes that the form of a node with one way can name, counted from 1."""
_PROBLEMS = {
    fst_words.OUTSIDE: "a node is outside of the data",
    fst_words.LEADS_OUTSIDE: "a way leads outside",
    fst_words.NOWHERE: "a way leads nowhere",
    fst_words.TOO_LONG: "its words are too long",
}


def write_fst(words: Sequence[str]) -> bytes:
    """Return a map from words to their places.

    Args:
        words: In the order of their bytes, each once.
    """
    encoded = [word.encode() for word in words]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    data = np.frombuffer(b"".join(encoded), np.uint8)
    return fst.build(data=data, offsets=offsets, values=np.arange(len(words)), common=_COMMON)


class FstMap:
    """A map from words to numbers.

    Args:
        data: Its bytes.
        path: The file, for errors.

    Raises:
        CorruptFileError: Header or footer are invalid.
    """

    def __init__(self, data: bytes, path: str) -> None:
        self._data = data
        self._path = path
        if len(data) < _HEADER.size + _FOOTER.size:
            raise self._damage("it is too short")
        self._version, _ = _HEADER.unpack_from(data)
        if self._version not in _VERSIONS:
            raise self._damage(f"its version is {self._version}")
        end = len(data) - (_CHECKSUM_BYTES if self._version > 2 else 0) - _FOOTER.size
        if end < _HEADER.size:
            raise self._damage("it is too short")
        self._count: int
        self._root: int
        self._count, self._root = _FOOTER.unpack_from(data, end)
        if self._root >= end:
            raise self._damage("the root node is outside of the data")

    def __len__(self) -> int:
        return self._count

    def get(self, word: str) -> int | None:
        """Return the number of a word, or None when it is not among them.

        Raises:
            CorruptFileError: A node cannot be read.
        """
        address, total = self._root, 0
        for byte in word.encode():
            node = self._node(address, only=byte)
            if not node.ways:
                return None
            _, output, address = node.ways[0]
            total += output
        node = self._node(address)
        return total + node.final_output if node.is_final else None

    def words(self) -> tuple[pa.LargeStringArray, npt.NDArray[np.uint64]]:
        """Return all words with their numbers, in the order of their bytes.

        Raises:
            CorruptFileError: A node cannot be read, or there are other words than there should be.
        """
        found, joined, offsets, numbers = fst_words.list_words(
            data=np.frombuffer(self._data, np.uint8),
            version=self._version,
            root=self._root,
            count=self._count,
            common=_COMMON,
        )
        if found == fst_words.TOO_MANY:
            raise self._damage(f"the transducer has more than the recorded {self._count} words")
        if found < 0:
            raise self._damage(_PROBLEMS[found])
        if found != self._count:
            raise self._damage(f"number of words does not match (expected {self._count}, got {found})")
        words = pa.LargeStringArray.from_buffers(found, pa.py_buffer(offsets), pa.py_buffer(joined))
        try:
            words.validate(full=True)
        except pa.ArrowInvalid:
            raise self._damage("a word is not valid UTF-8") from None
        return words, numbers

    def _node(self, address: int, only: int | None = None) -> Node:
        """Return a node with all its ways, or with the one of a byte, if there is one."""
        try:
            return read_node(self._data, address, self._version, _COMMON, only)
        except DamageError as error:
            raise self._damage(_PROBLEMS[error.code]) from None

    def _damage(self, problem: str) -> CorruptFileError:
        return CorruptFileError(f"its words cannot be read: {problem}", path=self._path, field="tokens")
