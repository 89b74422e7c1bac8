"""Cost model: what the parts of a compaction take, a number for each. Pure.

The numbers are seconds of one slot (a thread, an executor) for a unit of what the manifest tells of the work:
files, pages, values, bytes. The defaults were measured on a machine of two cores with a local disk;
`lance-ops calibrate` measures them where they are to be used.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace

from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.compact.method import Method


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCosts:
    """Seconds of one task, which brings a group of fragments into new files by one method.

    Attributes:
        group: For the task itself: its output is flushed and looked at.
        file: For each data file that is read.
        page: For each column of numbers or vectors of each file that is read.
        text_page: For each column of values of variable length of each file.
        number: For each value of fixed width, vectors apart.
        text: For each value of variable length.
        text_byte: For each stored byte of these.
        vector_byte: For each byte of fixed-size lists.
        filtered_value: For each value of fragments from which rows are left out, vectors apart.
        filtered_byte: For each stored byte of such fragments, vectors apart.
        filtered_vector_byte: For each byte of fixed-size lists of such fragments.
    """

    group: float
    file: float
    page: float
    text_page: float
    number: float
    text: float
    text_byte: float
    vector_byte: float
    filtered_value: float
    filtered_byte: float
    filtered_vector_byte: float

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The units, in order."""
        return tuple(item.name for item in fields(cls))

    def seconds(self, units: Mapping[str, float]) -> float:
        """What so many of each unit take."""
        return sum(float(getattr(self, name)) * units[name] for name in self.names())


_REWRITE = TaskCosts(
    group=4e-3,
    file=5e-5,
    page=1.2e-4,
    text_page=9e-4,
    number=2e-8,
    text=1e-8,
    text_byte=1.4e-8,
    vector_byte=9e-10,
    filtered_value=2e-9,
    filtered_byte=1e-10,
    filtered_vector_byte=1e-10,
)
_COPY = TaskCosts(
    group=5.6e-3,
    file=3e-5,
    page=6.5e-5,
    text_page=1.1e-3,
    number=4.9e-9,
    text=4e-9,
    text_byte=2.2e-9,
    vector_byte=9e-10,
    filtered_value=1.2e-8,
    filtered_byte=2e-10,
    filtered_vector_byte=1e-10,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """Seconds and money of a compaction and of the scans that it speeds up.

    Attributes:
        rewrite: Of a task that reads rows and writes them anew.
        copy: Of a task that copies encoded pages.
        run: Seconds around the tasks: the plan, two commits.
        fragment: Seconds of planning and committing for each fragment that is replaced.
        index: What index segments take, as a share of what their own model says (`index.upkeep.cost`), which
            is there to compare ways with each other.
        scan_file: Seconds of a scan for each data file.
        scan_page: Seconds of a scan for each column of each file.
        scan_byte: Seconds of a scan for each stored byte.
        request: Seconds that each request to the store adds to the work, over what the others take.
        overlap: How much each further slot adds to the first, 0 to 1: slots of one machine share its cores.
        read_price: Money for a thousand requests that read; dollars by default, as of S3.
        write_price: Money for a thousand requests that write or list.
        source: Where the numbers come from, for people.
    """

    rewrite: TaskCosts = _REWRITE
    copy: TaskCosts = _COPY
    run: float = 1.5e-2
    fragment: float = 3e-5
    index: float = 0.25
    scan_file: float = 8e-5
    scan_page: float = 2.6e-5
    scan_byte: float = 5e-10
    request: float = 0.0
    overlap: float = 0.7
    read_price: float = 0.0004
    write_price: float = 0.005
    source: str = "the defaults"

    def of(self, method: Method) -> TaskCosts:
        """The costs of a method."""
        return self.copy if method is Method.COPY else self.rewrite

    def money(self, reads: int, writes: int) -> float:
        """What requests cost."""
        return (reads * self.read_price + writes * self.write_price) / 1000

    def to_dict(self) -> dict[str, object]:
        """All numbers as JSON values."""
        return asdict(self)

    def to_json(self) -> str:
        """All numbers as JSON, without blanks."""
        return json.dumps(self.to_dict(), separators=(",", ":"))

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> "CostModel":
        """The model of `to_dict`; numbers that are not given are the defaults, unknown ones are left out.

        Raises:
            InvalidArgumentError: A value is no finite number from 0 on.
        """
        model = cls()
        changes: dict[str, object] = {}
        for item in fields(cls):
            value = values.get(item.name)
            if value is None:
                continue
            if item.name in ("rewrite", "copy"):
                known = {name: _number(name, got) for name, got in _table(item.name, value).items()}
                names = TaskCosts.names()
                changes[item.name] = replace(
                    getattr(model, item.name), **{name: got for name, got in known.items() if name in names}
                )
            elif item.name == "source":
                changes[item.name] = str(value)
            else:
                changes[item.name] = _number(item.name, value)
        return replace(model, **changes)  # type: ignore[arg-type]


def _table(name: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidArgumentError("the cost model has a table of numbers here", field=name)
    return value


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise InvalidArgumentError(f"{value!r} is no cost", field=name, hint="calibrate again")
    return float(value)
