"""Refs, base paths, row id sequences and key filters that somebody made up end in typed errors."""

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import LanceOpsError, SchemaMismatchError
from lance_ops.pb import transaction_pb2
from lance_ops.table.manifest.file.write import encode_manifest
from lance_ops.table.manifest.model import BasePath
from lance_ops.table.transaction.key_filter import KeyFilter
from tests.support.interop import data_files, our_dataset

TEXTS = ["", "../../etc", "/", "a/../b", "\0", "x" * 5000, "tree/../..", "é\u202e"]


@pytest.fixture
def uri(tmp_path):
    uri = str(tmp_path / "t.lance")
    our_dataset(uri, [4, 3], enable_stable_row_ids=True)
    return uri


def rewritten(uri, **changes):
    """The newest manifest with other content."""
    dataset = lo.dataset(uri)
    path = Path(uri) / dataset.location.path
    path.write_bytes(encode_manifest(dataset.manifest.replace(**changes)))


def files_around(uri):
    """Every file below the folder of the dataset's folder, but for notes of stores that were tried."""
    found = Path(uri).parent.rglob("*")
    return {path for path in found if path.is_file() and "_lance_ops" not in path.parts}


def typed(work):
    """What the work gives; an error of ours is fine, any other fails the test."""
    try:
        return work()
    except LanceOpsError as error:
        return error


@pytest.mark.parametrize(
    "record", [b"", b"{", b"[]", b"{}", b'{"version": -1}', b'{"version": "1"}', b"\xff"]
)
def test_refs_that_make_no_sense(uri, record):
    for folder in ("tags", "branches"):
        path = Path(uri) / "_refs" / folder / "wrong.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(record)
        for work in (
            lambda: lo.dataset(uri, "wrong"),
            lambda: lo.dataset(uri, ("wrong", None)),
            lambda: lo.dataset(uri).tags,
            lambda: lo.dataset(uri).branches,
            lambda: lo.cleanup(uri, dry_run=True),
        ):
            typed(work)
        path.unlink()
    assert lo.dataset(uri).count_rows() == 7


@pytest.mark.parametrize("name", TEXTS, ids=repr)
def test_names_of_refs_stay_inside(uri, name):
    before = files_around(uri)
    for work in (lambda: lo.create_tag(uri, name), lambda: lo.create_branch(uri, name)):
        assert isinstance(typed(work), LanceOpsError)
    assert files_around(uri) == before


@pytest.mark.parametrize("path", TEXTS, ids=repr)
def test_base_paths_stay_inside(uri, path):
    dataset = lo.dataset(uri)
    (file,) = dataset.fragments[0].files
    outside = dataset.fragments[0].replace(files=(replace(file, base_id=7),))
    fragments = (outside, *dataset.fragments[1:])
    rewritten(uri, fragments=fragments, base_paths=(BasePath(7, path, False),))
    for work in (lambda: lo.dataset(uri).to_table(), lambda: lo.compact(uri), lambda: lo.append(uri, "nope")):
        assert isinstance(typed(work), LanceOpsError)
    rewritten(uri, fragments=fragments, base_paths=())
    assert isinstance(typed(lambda: lo.dataset(uri).to_table()), LanceOpsError)


def test_row_id_sequences_that_were_damaged(uri):
    dataset = lo.dataset(uri)
    first = dataset.fragments[0]
    whole = dataset.to_table()
    chance = random.Random(7)
    for name in ("row_ids", "created_at_versions", "last_updated_at_versions"):
        data = getattr(first, name)
        for _ in range(12):
            wrong = bytearray(data)
            for _ in range(chance.randint(1, 3)):
                wrong[chance.randrange(len(wrong))] = chance.randrange(256)
            cut = bytes(wrong[: chance.randint(0, len(wrong))])
            changed = first.replace(**{name: cut})
            rewritten(uri, fragments=(changed, *dataset.fragments[1:]))
            before = data_files(uri)
            found = typed(lambda: lo.dataset(uri).to_table(with_row_id=True))
            if isinstance(found, LanceOpsError):
                typed(lambda: lo.update(uri, {"f": "0.5"}, where="x = 1", dry_run=True))
                assert data_files(uri) == before
            else:
                assert found.select(whole.schema.names).equals(whole)
            rewritten(uri, fragments=dataset.fragments)


def test_key_filters_that_were_damaged():
    proto = transaction_pb2.Transaction.KeyExistenceFilter
    chance = random.Random(3)
    bloom = transaction_pb2.Transaction.BloomFilter(
        bitmap=bytes(32), num_bits=256, number_of_items=4, probability=0.01
    )
    data = proto(field_ids=[0], bloom=bloom).SerializeToString()
    sound = KeyFilter.decode(proto.FromString(data))
    for _ in range(200):
        wrong = bytearray(data)
        wrong[chance.randrange(len(wrong))] = chance.randrange(256)
        message = proto()
        try:
            message.ParseFromString(bytes(wrong))
        except Exception:  # noqa: BLE001 - no message of any kind
            continue
        found = typed(lambda message=message: KeyFilter.decode(message))
        if isinstance(found, KeyFilter):
            for pair in ((found, sound), (sound, found)):
                assert isinstance(typed(lambda pair=pair: pair[0].meets(pair[1])), bool | LanceOpsError)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 300, 2], pa.int8()),
        ([1.0, 2.5, 3.0], pa.int64()),
        (["1", "two", "3"], pa.int32()),
        ([1, -1, 2], pa.uint64()),
    ],
    ids=str,
)
def test_a_cast_that_loses_values_names_column_and_row_and_changes_nothing(tmp_path, values, kind):
    uri = str(tmp_path / "cast.lance")
    lo.append(uri, pa.table({"v": values}))
    before = data_files(uri)
    with pytest.raises(SchemaMismatchError, match=r"v: .* in the row with address 1"):
        lo.alter_columns(uri, {"path": "v", "data_type": kind})
    assert (lo.dataset(uri).version, data_files(uri)) == (1, before)
