"""Zone kind: what indices of zones share: building them fragment by fragment, following rewrites, searching.

Zones name runs of rows by fragment and offset, in every table. A rewrite cannot move them: the zones of the
new fragments are created again from the rows, in the commit of the rewrite.
"""

import uuid
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain
from operator import or_
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptFileError
from lance_ops.file.schema.model import Field
from lance_ops.index.column import column_values, value_type
from lance_ops.index.column_query import ColumnQuery
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.kind import (
    BuildTask,
    BuiltSegment,
    Match,
    Parameters,
    SegmentBuild,
    SegmentMove,
    Share,
    WatchingKind,
)
from lance_ops.index.opened import keep, opened
from lance_ops.index.reading import reading
from lance_ops.index.watch import Observer, Watch
from lance_ops.index.zones.file import ZoneFile, write_zone_file
from lance_ops.index.zones.layout import ZoneLayout
from lance_ops.index.zones.parameters import MOST_ROWS
from lance_ops.index.zones.parts import FewZones, Kept, by_fragment
from lance_ops.index.zones.summaries import PassingZones, Summaries, noted_zones
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragments.totals import physical_rows_by_id
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_set import Addresses, RowSet
from lance_ops.table.snapshot import Snapshot

_SCAN_IS_BETTER = 0.5
"""Share of rows above which a scan is cheaper than a search."""
_KEPT_BYTES = 16 << 20
"""Maximum bytes of zones cached between searches."""
_CARRIED_BYTES = 1 << 20
"""Maximum bytes of zones that a task returns to the merge in memory instead of a file."""
_FILE = "file"


class Ready(Protocol):
    """Zones prepared for queries."""

    def candidates(self, query: ColumnQuery) -> npt.NDArray[np.bool_] | None:
        """Return a mask of zones that may have a matching row; None if unknown."""


class ZoneKind(WatchingKind):
    """An index with a summary of the values of each zone, a range of consecutive rows of a fragment."""

    names_every_row = False
    looks_at_rows = True
    file_name: ClassVar[str]
    summary_names: ClassVar[tuple[str, ...]]
    """Columns of the file in addition to `ZONE_FIELDS`."""

    @abstractmethod
    def zone_rows(self, parameters: Parameters) -> int:
        """Live rows of a zone."""

    @abstractmethod
    def file_schema(self, values: pa.DataType) -> pa.Schema:
        """Return columns of the file for values of a type, in their order."""

    def stored_type(self, field: Field) -> pa.DataType:
        """Type of the values in a file, for an indexed column."""
        return value_type(field)

    @abstractmethod
    def metadata(self, parameters: Parameters) -> dict[str, str]:
        """Metadata of the file."""

    @abstractmethod
    def details(self, parameters: Parameters) -> bytes:
        """Return the message of the entry in the manifest."""

    @abstractmethod
    def zone_bytes(self, zones: ZoneFile) -> int:
        """About what a zone of a file takes in memory."""

    @abstractmethod
    def summarise(
        self, values: pa.Array, starts: npt.NDArray[np.int64], parameters: Parameters
    ) -> dict[str, pa.Array]:
        """Return the columns of `summary_names`, for zones that begin at some positions of the values."""

    @abstractmethod
    def ready(self, zones: pa.Table) -> Ready:
        """Prepare zones for queries; their columns are parsed once."""

    def build_share(self, task: BuildTask, path: str) -> Share:
        """See `IndexKind.build_share`: the zones and their null rows, in a file unless they are few."""
        schema = self.file_schema(value_type(task.dataset.lance_schema.field(task.column)))
        nulls: list[RowSet] = []
        zones = self._fresh(task.dataset, task.column, task.fragment_ids, task.parameters, nulls)
        held: list[pa.Table] = []
        size = 0
        for part in zones:
            held.append(part)
            size += part.nbytes
            if size > _CARRIED_BYTES:
                break
        else:
            together = pa.concat_tables(held) if held else schema.empty_table()
            return Share((), FewZones(together, reduce(or_, nulls, RowSet()).serialize()))
        file = f"{path}.lance"
        write_zone_file(task.dataset.store, file, schema, chain(held, zones), {}, nulls)
        return Share((file,))

    def merge(self, build: SegmentBuild) -> BuiltSegment:
        """See `IndexKind.merge`: zones of fragments as they were are kept, those of others created again."""
        dataset = build.dataset
        kept = [self._kept(dataset, segment) for segment in build.segments]
        lost = frozenset[int]().union(*(part.lost for part in kept))
        tasks = [
            (
                self,
                BuildTask(dataset, build.column, (owner,), build.row_ids, build.directory, build.parameters),
            )
            for owner in sorted(lost)
        ]
        again: list[Share] = build.run(_build_again, tasks, f"zones of {build.column}") if tasks else []
        shares = [
            share.detail or ZoneFile.open(dataset.store, share.temporary[0], self.summary_names)
            for share in (*build.shares, *again)
        ]
        nulls = [part.nulls for part in kept]
        nulls += [file.nulls(dataset) or RowSet() for file in shares]

        def zones() -> Iterator[pa.Table]:
            for part in kept:
                yield from self._copied(part)
            for file in shares:
                yield from file.batches(
                    _CARRIED_BYTES if isinstance(file, FewZones) else self.zone_bytes(file)
                )

        built = self._write(dataset, build.directory, build.field, zones(), build.parameters, nulls)
        dataset.store.delete_many([path for share in again for path in share.temporary])
        return built

    def remap(self, move: SegmentMove) -> BuiltSegment:
        """See `IndexKind.remap`: the new fragments are read, unless their zones were noted as they passed."""
        dataset, segment = move.dataset, move.segment
        column = dataset.lance_schema.path(segment.fields[0])
        covered = effective_fragments(dataset.manifest, segment)
        after = covered - move.moves.old_fragment_ids
        for group in move.moves.groups:
            if all(fragment.id in covered for fragment in group.old_fragments):
                after |= {fragment.id for fragment in group.new_fragments}
        parameters = self.parameters_of(dataset, segment)
        kept = self._kept(dataset, segment).only(after)
        new = sorted(after - kept.owners)
        rows = physical_rows_by_id(move.rewritten.fragments)
        noted = {
            owner: noted_zones(move.notes[owner], owner, rows[owner]) for owner in new if owner in move.notes
        }
        known = [few for few in noted.values() if few is not None]
        unknown = [owner for owner in new if noted.get(owner) is None]
        nulls = [kept.nulls, *(few.nulls(dataset) for few in known)]
        zones = chain(
            self._copied(kept),
            (few.zones for few in known),
            self._fresh(move.rewritten, column, unknown, parameters, nulls),
        )
        field = dataset.lance_schema.field(column)
        return self._write(dataset, move.directory, field, zones, parameters, nulls)

    def watch(self, dataset: Snapshot, segment: IndexMetadata) -> Watch:
        """See `WatchingKind.watch`."""
        parameters = self.parameters_of(dataset, segment)
        return Watch(self.name, segment.fields[0], tuple(sorted(parameters.items())))

    def observer(self, watch: Watch, values: pa.DataType) -> Observer:
        """See `WatchingKind.observer`."""
        return PassingZones(self, dict(watch.parameters), values)

    def addresses(self, dataset: Snapshot, segment: IndexMetadata) -> Iterator[Addresses]:
        """See `IndexKind.addresses`: all rows of the zones, deleted ones included."""
        with reading(segment):
            yield from self.opened(dataset, segment).layout.addresses(dataset)

    def search(self, dataset: Snapshot, segment: IndexMetadata, query: ColumnQuery) -> Match | None:
        """See `IndexKind.search`: whole zones, or the null rows."""
        if query.ranges is None:
            return None
        file, layout, zones = opened(dataset, segment, lambda: self._for_searches(dataset, segment))
        if all(values.nulls and not values.intervals for values in query.ranges):
            nulls = file.nulls(dataset)
            if nulls is not None:
                return Match(nulls, exact=True)
        found: list[npt.NDArray[np.bool_]] = []
        for part in zones or map(self.ready, file.batches(self.zone_bytes(file))):
            candidates = part.candidates(query)
            if candidates is None:
                return None
            found.append(candidates)
        chosen = np.concatenate(found) if found else np.zeros(0, np.bool_)
        if len(chosen) > 1 and layout.lengths[chosen].sum() > _SCAN_IS_BETTER * layout.lengths.sum():
            return None
        return Match(layout.rows(chosen), exact=False)

    def stale(self, dataset: Snapshot, segment: IndexMetadata) -> str | None:
        """See `IndexKind.stale`: pylance before 1.0 did not count the deleted rows between others."""
        with reading(segment):
            file = self._file(dataset, segment)
            reuse = dataset.fragment_reuse
            if not file.counts_live_rows or (reuse is not None and reuse.problem is not None):
                return None
            try:
                file.layout.check(dataset, effective_fragments(dataset.manifest, segment))
            except CorruptFileError:
                return "its zones omit live rows, as of pylance before 1.0 next to deleted rows"
        return None

    def verify(self, dataset: Snapshot, segment: IndexMetadata, *, deep: bool) -> None:
        """See `IndexKind.verify`: the zones have to hold all live rows of the fragments."""
        with reading(segment):
            file = self.opened(dataset, segment)
            keep(dataset, segment, file, part=_FILE)
            file.nulls(dataset)
            reuse = dataset.fragment_reuse
            if reuse is None or reuse.problem is None:
                # Unknown row locations are not damage of the segment.
                file.layout.check(dataset, effective_fragments(dataset.manifest, segment))
            for zones in file.batches(self.zone_bytes(file)) if deep else [file.first()]:
                self.check_zones(zones, file.reader.path)

    def zone_rows_of(self, dataset: Snapshot, segment: IndexMetadata, key: str, default: int) -> int:
        """Return the live rows of a zone of a segment from its metadata; a default without a record.

        Raises:
            UnreadableIndexError: It cannot be opened, or is inconsistent.
        """
        with reading(segment):
            file = self._file(dataset, segment)
            rows = file.number(key)
            if rows is not None and not 1 <= rows < MOST_ROWS:
                raise CorruptFileError(f"{key} is {rows}", path=file.reader.path, field=key)
        return default if rows is None else int(rows)

    def as_stored(self, zones: pa.Table, schema: pa.Schema) -> pa.Table:
        """Zones with the columns of a file, see `stored_type`."""
        del schema
        return zones

    def check_zones(self, zones: pa.Table, path: str) -> None:
        """Refuse zones that are inconsistent.

        Raises:
            CorruptFileError: They do.
        """
        del zones, path

    def check_file(self, file: ZoneFile, values: pa.DataType) -> None:
        """Refuse a file that cannot be about values of a type.

        Raises:
            CorruptFileError: It is about others.
        """
        types = {field.name: field.type for field in self.file_schema(values)}
        for field in file.summary_fields:
            if not _same_type(field.type, types[field.name]):
                raise CorruptFileError(
                    f"its column {field.name!r} is {field.type} and not {types[field.name]}",
                    path=file.reader.path,
                    field="schema",
                )

    def opened(self, dataset: Snapshot, segment: IndexMetadata) -> ZoneFile:
        """Return the file of a segment, whose columns fit the column of the table."""
        store, directory = dataset.bases.index_directory(segment)
        file = ZoneFile.open(store, f"{directory}/{self.file_name}", self.summary_names)
        path = dataset.lance_schema.path(segment.fields[0])
        self.check_file(file, self.stored_type(dataset.lance_schema.field(path)))
        return file

    def _file(self, dataset: Snapshot, segment: IndexMetadata) -> ZoneFile:
        """Return the same for the steps of one upkeep, which need not all read it."""
        return opened(dataset, segment, lambda: self.opened(dataset, segment), part=_FILE)

    def _for_searches(
        self, dataset: Snapshot, segment: IndexMetadata
    ) -> tuple[ZoneFile, ZoneLayout, Sequence[Ready]]:
        """Return the file, its layout and, unless they are many, its zones, cached between searches."""
        file = self.opened(dataset, segment)
        row_bytes = self.zone_bytes(file)
        few = file.reader.num_rows * row_bytes <= _KEPT_BYTES
        zones = list(file.batches(row_bytes)) if few else []
        # Each column is a separate read, however short it is.
        layout = file.layout_of(zones) if zones else file.layout
        layout.check(dataset, effective_fragments(dataset.manifest, segment))
        return file, layout, [self.ready(part) for part in zones]

    def _kept(self, dataset: Snapshot, segment: IndexMetadata) -> "Kept":
        with reading(segment):
            file = self._file(dataset, segment)
            covered = effective_fragments(dataset.manifest, segment)
            layout = file.layout
            nulls = file.nulls(dataset)
        owners = covered & layout.fragment_ids
        try:
            layout.check(dataset, covered)
        except CorruptFileError:
            owners = frozenset()
        # Early writers did not keep the null rows: what they wrote is not worth keeping either.
        owners = owners if nulls is not None else frozenset()
        return Kept(segment, file, owners, (nulls or RowSet()).restrict(owners), covered - owners)

    def _copied(self, kept: "Kept") -> Iterator[pa.Table]:
        wanted = np.array(sorted(kept.owners), np.uint64)
        with reading(kept.segment):
            for zones in kept.file.batches(self.zone_bytes(kept.file)):
                chosen = np.isin(ZoneLayout.of(zones, kept.file.reader.path).owners, wanted)
                if chosen.any():
                    yield zones.filter(pa.array(chosen))

    def _write(
        self,
        dataset: Snapshot,
        directory: str,
        field: Field,
        zones: Iterable[pa.Table],
        parameters: Parameters,
        nulls: Iterable[RowSet],
    ) -> BuiltSegment:
        path = f"{directory}/{self.file_name}"
        schema = self.file_schema(self.stored_type(field))
        stored = (self.as_stored(part, schema) for part in zones)
        written = write_zone_file(dataset.store, path, schema, stored, self.metadata(parameters), nulls)
        return BuiltSegment((written,), self.details(parameters))

    def _fresh(
        self,
        dataset: Dataset,
        column: str,
        fragment_ids: Iterable[int],
        parameters: Parameters,
        nulls: list[RowSet],
    ) -> Iterator[pa.Table]:
        """Yield the zones of some fragments, some at a time; their null rows are added to `nulls`."""
        summaries = Summaries(self, parameters, nulls)
        last: int | None = None
        # One scan of all of them: to start one takes longer than to read a small fragment.
        for owner, batch in by_fragment(column_values(dataset, column, list(fragment_ids))):
            if owner != last:
                yield from summaries.rest()
                last = owner
            yield from summaries.add(batch)
        yield from summaries.rest()


def _build_again(task: tuple[ZoneKind, BuildTask]) -> Share:
    kind, share = task
    return kind.build_share(share, f"{share.directory}/.tmp_share_{uuid.uuid4().hex}")


def _same_type(one: pa.DataType, other: pa.DataType) -> bool:
    large = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    return bool(large.get(one, one) == large.get(other, other))
