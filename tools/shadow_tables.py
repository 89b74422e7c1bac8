"""Whether two tables are the same: one left by a write of the peer, one by the same write of lance_ops.

Both began as the same files. They are compared by schema, by every row that the peer reads of either, by the
answers of their indices, by versions, tags and branches; the table of lance_ops is also read by lance_ops,
validated by the peer, and checked for damage.
"""

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from shadow_compare import difference, schema_difference
from shadow_reads import has_blobs

import lance_ops as lo

_MOST_ROWS = 30_000
_SAMPLES = 3
_LINEAGE = ("_row_created_at_version", "_row_last_updated_at_version")


def table_difference(
    ours: Path,
    theirs: str,
    *,
    before: int | None = None,
    ordered: bool = True,
    same_version: bool = True,
    same_layout: bool = False,
) -> str | None:
    """The first difference in words; None when there is none.

    Args:
        ours: Where the table of lance_ops lies.
        theirs: Where the table of the peer lies.
        before: Version that both began with.
        ordered: Whether the order of rows counts.
        same_version: Whether both have made as many versions.
        same_layout: Whether the rows are cut into the same fragments.
    """
    mine, yours = lance.dataset(str(ours)), lance.dataset(theirs)
    if mine.version == before != yours.version:
        words = f"no version for no change: ours {mine.version} | theirs {yours.version}"
        return _row_difference(mine, yours, ordered=ordered) or words
    for what, one, other in (
        ("storage version", mine.data_storage_version, yours.data_storage_version),
        ("stable row ids", mine.has_stable_row_ids, yours.has_stable_row_ids),
        ("rows", mine.count_rows(), yours.count_rows()),
        ("tags", _tags(mine), _tags(yours)),
        ("branches", sorted(mine.branches.list()), sorted(yours.branches.list())),
        ("config", _config(mine), _config(yours)),
        ("indices", _indices(mine), _indices(yours)),
        *([("versions", _versions(mine), _versions(yours))] if same_version else []),
        *([("fragments", _fragments(mine), _fragments(yours))] if same_layout else []),
    ):
        if one != other:
            return f"{what}: ours {one} | theirs {other}"
    return (
        _row_difference(mine, yours, ordered=ordered)
        or _reading_difference(ours, mine)
        or _damage(ours, mine, theirs)
        or _index_difference(ours, mine, yours)
    )


def _tags(dataset: Any) -> dict[str, Any]:
    return {name: (tag.get("branch"), tag["version"]) for name, tag in dataset.tags.list().items()}


def _config(dataset: Any) -> dict[str, str]:
    return {name: value for name, value in dataset.config().items() if not name.startswith("lance_ops.")}


def _versions(dataset: Any) -> list[int]:
    return [item["version"] for item in dataset.versions()]


def _fragments(dataset: Any) -> list[tuple[int, int]]:
    return [(item.physical_rows, item.num_deletions) for item in dataset.get_fragments()]


def _indices(dataset: Any) -> list[Any]:
    found = {(item.name, item.index_type, tuple(item.fields)) for item in dataset.describe_indices()}
    return sorted(found, key=str)


def _read(dataset: Any) -> pa.Table:
    handling = "all_binary" if any(has_blobs(field) for field in dataset.schema) else None
    lineage = list(_LINEAGE) if dataset.has_stable_row_ids else []
    names = [_quoted(name) for name in dataset.schema.names]
    return dataset.scanner([*names, *lineage], blob_handling=handling).to_table()


def _quoted(name: str) -> str:
    return name if name.isidentifier() else "`" + name.replace("`", "``") + "`"


def _row_difference(mine: Any, yours: Any, *, ordered: bool) -> str | None:
    if (found := schema_difference(mine.schema, yours.schema)) is not None:
        return found
    try:
        expected = _read(yours)
    except BaseException as error:
        return _unreadable_for_both(mine, error)
    found = difference(_read(mine), expected)
    if found is not None and (not ordered or mine.has_stable_row_ids):
        if expected.num_rows > _MOST_ROWS:
            return None
        found = difference(_read(mine), expected, ordered=False)
    if found is None and mine.has_stable_row_ids:
        ids = [
            sorted(one.scanner([], with_row_id=True).to_table()["_rowid"].to_pylist())
            for one in (mine, yours)
        ]
        if ids[0] != ids[1]:
            return f"row ids: ours {str(ids[0])[:200]} | theirs {str(ids[1])[:200]}"
    return found


def _unreadable_for_both(mine: Any, error: BaseException) -> str | None:
    try:
        _read(mine)
    except BaseException:
        return None
    return f"the peer does not read its own table: {error}"[:300]


def _reading_difference(ours: Path, mine: Any) -> str | None:
    """What lance_ops reads of its table beside what the peer reads of it."""
    if any(has_blobs(field) for field in mine.schema):
        return None
    found = difference(lo.dataset(ours).to_table(), mine.to_table())
    return None if found is None else f"read of the table that lance_ops made: {found}"


def _damage(ours: Path, mine: Any, theirs: str) -> str | None:
    try:
        mine.validate()
    except Exception as error:
        return f"the peer calls the table damaged: {error}"[:400]
    found = {finding.check for finding in lo.fsck(ours, deep=True).findings if finding.severity == "error"}
    if found and (new := found - {finding.check for finding in lo.fsck(theirs, deep=True).findings}):
        texts = [str(finding) for finding in lo.fsck(ours, deep=True).findings if finding.check in new]
        return f"fsck: {texts}"[:500]
    return None


def _index_difference(ours: Path, mine: Any, yours: Any) -> str | None:
    """What indices of the table of lance_ops answer, beside a scan; and how much they cover."""
    for description in mine.describe_indices():
        name = description.name
        covered = [_coverage(one, name) for one in (mine, yours)]
        # An index of lance_ops may cover more: it moves indices along that the peer gives up.
        if None not in covered and covered[0][1] > covered[1][1]:
            return f"coverage of {name}: ours {covered[0]} | theirs {covered[1]}"
        if len(description.field_names) != 1 or description.index_type not in (
            "BTree",
            "Bitmap",
            "ZoneMap",
            "BloomFilter",
        ):
            continue
        column = description.field_names[0]
        for literal in _samples(mine, column):
            condition = f"{_path(column)} = {literal}"
            answers = [
                mine.count_rows(condition),
                mine.scanner([], condition, use_scalar_index=False, with_row_id=True).to_table().num_rows,
                lo.dataset(ours).count_rows(condition),
                lo.dataset(ours).count_rows(condition, pruners=()),
            ]
            if len(set(answers)) > 1:
                return f"{condition} by index {name}: peer, its scan, ours, our scan: {answers}"
    return None


def _coverage(dataset: Any, name: str) -> tuple[int, int] | None:
    try:
        found = dataset.index_statistics(name)
    except Exception:
        return None
    counts = found.get("num_indexed_rows"), found.get("num_unindexed_rows")
    return None if None in counts else counts


def _samples(dataset: Any, column: str) -> list[str]:
    try:
        values = dataset.to_table(columns=[_path(column)], limit=50).column(0).to_pylist()
    except Exception:
        return []
    plain = [value for value in values if type(value) in (int, str)]
    chosen = plain[:1] + plain[len(plain) // 2 :][:1] + plain[-1:]
    return [str(v) if isinstance(v, int) else "'" + v.replace("'", "''") + "'" for v in chosen[:_SAMPLES]]


def _path(column: str) -> str:
    return ".".join(_quoted(part) for part in column.split("."))
