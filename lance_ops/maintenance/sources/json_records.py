"""JSON records: where objects begin and end, in lines, in an array or one after the other."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.sources.text_blocks import TextBlock, end_of_lines, read_blocks

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# An object or array without another one in it is one step; then strings, and the signs that count.
_TOKEN = re.compile(
    rb'\{[^{}\[\]"]*+(?:' + _STRING + rb'[^{}\[\]"]*+)*+\}'
    rb'|\[[^{}\[\]"]*+(?:' + _STRING + rb'[^{}\[\]"]*+)*+\]'
    rb"|" + _STRING + rb'|[{}\[\],"]',
    re.DOTALL,
)
_SPACE = b" \t\r\n"
_LOOKED_AT = 1 << 20


@dataclass(slots=True)
class _Documents:
    """Finds the ends of objects that stand one after the other, or in an array.

    Attributes:
        is_array: The objects are items of an array, whose opening bracket is part of the first block.
        is_begun: The opening bracket was read.
        is_closed: The closing bracket was read.
        end: Result of the last search.
        commas: Offsets of the commas and brackets around the objects that it found.
    """

    is_array: bool
    is_begun: bool = False
    is_closed: bool = False
    end: int = 0
    commas: list[int] = field(default_factory=list)

    def find_end(self, data: bytes) -> int:
        """Return the bytes up to the end of the last whole object, or the comma after it."""
        self.commas = []
        start = 0
        if self.is_array and not self.is_begun:
            start = data.index(b"[") + 1
        depth, end, closing = 0, 0, False
        for found in _TOKEN.finditer(data, start):
            sign = data[found.start()]
            is_one = found.end() - found.start() > 1
            if is_one and sign in b"{[":
                end = end if depth else found.end()
            elif sign in b"{[":
                depth += 1
            elif sign in b"}]" and depth:
                depth -= 1
                end = end if depth else found.end()
            elif sign == ord("]") and self.is_array:
                end, closing = found.end(), True
                self.commas.append(found.start())
                break
            elif sign == ord(",") and not depth and self.is_array:
                end = found.end()
                self.commas.append(found.start())
            elif sign == ord('"') and not is_one:
                # A string that is not complete yet.
                break
        if closing:
            self.is_closed = True
            # What follows the array is looked at by the parser, which refuses it.
            end = len(data)
        if end and start:
            self.is_begun = True
            self.commas.append(start - 1)
        self.end = end
        return end


def read_objects(path: str, encoding: str) -> Iterator[TextBlock]:
    """Yield blocks of whole objects, without the brackets and commas of an array around them.

    Raises:
        InvalidArgumentError: The text has no objects, or ends early.
    """
    kind = _kind_of(path, encoding)
    if kind is None:
        return
    if kind == "lines":
        yield from read_blocks(path, encoding, end_of_lines)
    else:
        yield from _documents(path, encoding, is_array=kind == "array")


def _documents(path: str, encoding: str, *, is_array: bool) -> Iterator[TextBlock]:
    documents = _Documents(is_array)
    last = 1
    for block in read_blocks(path, encoding, documents.find_end):
        # All blocks but the last one end where the search said.
        end = documents.end or (len(block.data) if documents.is_closed else documents.find_end(block.data))
        documents.end = 0
        text = bytearray(block.data)
        for position in documents.commas:
            text[position] = ord(" ")
        documents.commas = []
        last = block.line_at(len(block.data.rstrip(_SPACE)))
        if end < len(text) and text[end:].strip(_SPACE):
            raise _ends_early(path, last)
        yield TextBlock(bytes(text), block.line)
    if is_array and not documents.is_closed:
        raise _ends_early(path, last)


def objects_of(block: TextBlock) -> Iterator[tuple[int, str]]:
    """Yield (offset, text) of each object of a block; what is between them is left out."""
    depth = start = 0
    for found in _TOKEN.finditer(block.data):
        sign = block.data[found.start()]
        if found.end() - found.start() > 1 and sign in b"{[":
            if not depth:
                yield found.start(), found[0].decode(errors="replace")
        elif sign in b"{[":
            start = start if depth else found.start()
            depth += 1
        elif sign in b"}]" and depth:
            depth -= 1
            if not depth:
                yield start, block.data[start : found.end()].decode(errors="replace")


def _kind_of(path: str, encoding: str) -> str | None:
    """Return "lines", "array" or "documents"; None for a file of white space only."""
    for block in read_blocks(path, encoding, len, size=_LOOKED_AT):
        data = block.data.lstrip(_SPACE)
        if not data:
            continue
        if data.startswith(b"["):
            return "array"
        if not data.startswith(b"{"):
            raise InvalidArgumentError(
                f"line {block.line_at(len(block.data) - len(data))} begins with {chr(data[0])!r} instead of "
                "an object",
                path=path,
                hint="JSON input is an object in each line, or an array of objects",
            )
        line, ended, _ = data.partition(b"\n")
        return "lines" if not ended or _is_json(line) or not _is_open(line) else "documents"
    return None


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _is_open(line: bytes) -> bool:
    """Return whether the first object does not end in its line."""
    return not any(True for _ in objects_of(TextBlock(line, 1)))


def _ends_early(path: str, line: int) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the file ends early: line {line} has no end of its object or array",
        path=path,
        hint="write the file again",
    )
