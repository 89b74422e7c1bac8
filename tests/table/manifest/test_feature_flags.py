"""Feature flags."""

from dataclasses import replace

import lance
import pyarrow as pa
import pytest

from lance_ops.errors import CorruptManifestError, UnsupportedFeatureError
from lance_ops.storage import open_store
from lance_ops.table.manifest.feature_flags import (
    KNOWN,
    check_readable,
    check_writable,
    contradictions,
    flags_for,
    unknown_bits,
)
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.file.write import encode_manifest
from lance_ops.table.manifest.fragment import SpilledSequence
from lance_ops.table.manifest.listing import latest
from lance_ops.table.manifest.model import BasePath
from tests.support.overlays import ALLOWED
from tests.support.table_values import data_file, fragment, index, manifest

PAIRED = (8, 10, 14)


def flagged(reader=0, writer=0):
    return manifest(reader_flags=reader, writer_flags=writer)


@pytest.mark.parametrize("bit", range(64))
def test_every_bit_alone_among_the_reader_flags(bit):
    value = 1 << bit
    if value & KNOWN and bit not in PAIRED:
        check_readable(flagged(reader=value), path="m")
        check_writable(flagged(reader=value), path="m")
        return
    error = CorruptManifestError if bit in PAIRED else UnsupportedFeatureError
    with pytest.raises(error, match=str(value)):
        check_readable(flagged(reader=value), path="m")
    with pytest.raises(error):
        check_writable(flagged(reader=value), path="m")


@pytest.mark.parametrize("bit", range(64))
def test_every_bit_alone_among_the_writer_flags(bit):
    value = 1 << bit
    if bit in PAIRED:
        with pytest.raises(CorruptManifestError, match=str(value)):
            check_readable(flagged(writer=value), path="m")
        return
    check_readable(flagged(writer=value), path="m")
    if not value & KNOWN:
        with pytest.raises(UnsupportedFeatureError) as caught:
            check_writable(flagged(writer=value), path="m")
        assert caught.value.bits == (value,)


def test_the_mark_of_several_file_versions_is_set_in_both_words():
    check_writable(flagged(256, 256), path="m")


def test_the_mark_of_tagged_fragment_reuse_is_set_in_both_words_and_stays():
    check_writable(flagged(1024, 1024), path="m")
    assert [flags & 1024 for flags in flags_for(flagged(1024, 1024))] == [1024, 1024]


def test_the_mark_of_managed_blobs_is_set_in_both_words_and_stays():
    check_writable(flagged(16384, 16384), path="m")
    assert [flags & 16384 for flags in flags_for(flagged(16384, 16384))] == [16384, 16384]


def test_all_unknown_bits_are_named_and_known_ones_are_not():
    assert unknown_bits(1 | 512 | 8 | 2**40) == (512, 2**40)
    assert unknown_bits(KNOWN) == ()


def test_flags_follow_from_the_content():
    def of(*fragments, **more):
        return flags_for(manifest(*fragments, transaction_file="0-x.txn", **more))

    assert of(fragment(0)) == (0, 0)
    assert of(fragment(0), config={"a": "b"}) == (0, 8)
    assert of(fragment(0), fragment(1, deleted=1), config={"a": "b"}) == (1, 9)
    assert of(fragment(0, row_ids=b"")) == (2, 2)
    assert of(reader_flags=2, writer_flags=2) == (2, 2)
    assert of(fragment(0), base_paths=(BasePath(0, "/x", True),)) == (16, 16)
    assert flags_for(manifest(fragment(0))) == (0, 32)
    other = fragment(1, files=(data_file("x", minor=2),))
    assert of(fragment(0), other) == of(fragment(0), reader_flags=256, writer_flags=256) == (256, 256)
    assert of(fragment(0, row_ids=SpilledSequence()), reader_flags=2) == (2050, 2050)
    assert of(fragment(0), reader_flags=2048, writer_flags=2048) == (0, 0)
    covering = replace(index("i", {0}, fields=(0, 1)), covering_fields=(1,))
    assert of(fragment(0), indices=(covering,)) == (128, 128)
    assert of(fragment(0), reader_flags=128, writer_flags=128) == (0, 0)


@pytest.mark.peer
def test_the_peer_sets_the_same_flags(tmp_path):
    uri = str(tmp_path / "t.lance")
    found = set()
    for stable in (False, True):
        dataset = lance.write_dataset(
            pa.table({"i": range(10)}), uri, mode="overwrite", enable_stable_row_ids=stable
        )
        dataset.delete("i = 1")
        dataset.update_config({"a": "b"})
        store = open_store(uri)
        for version in dataset.versions():
            lance.dataset(uri, version["version"])
        last = read_manifest(store, latest(store))
        found.add((last.reader_flags, last.writer_flags))
        assert flags_for(last) == (last.reader_flags, last.writer_flags)
    assert (1, 9) in found


@pytest.mark.peer
@pytest.mark.parametrize("bit", range(24))
def test_we_read_no_bit_that_the_peer_refuses(tmp_path, bit, monkeypatch):
    monkeypatch.setenv(ALLOWED, "1")
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"i": range(3)}), uri, enable_stable_row_ids=bit == 1)
    store = open_store(uri)
    location = latest(store)
    value = 1 << bit
    marked = read_manifest(store, location).replace(reader_flags=value, writer_flags=value)
    store.put(location.path, encode_manifest(marked))
    try:
        check_readable(marked, path="m")
    except (UnsupportedFeatureError, CorruptManifestError):
        return
    assert lance.dataset(uri).count_rows() == 3


@pytest.mark.parametrize(
    ("named", "minors", "expected"),
    [
        ("2.1", (1,), "2.1"),
        ("2.1", (2,), "2.1"),
        ("stable", (0,), "2.0"),
        ("stable", (), "2.2"),
        ("legacy", (), "0.1"),
        ("0.1", (0,), "2.0"),
        ("0.1", (0, 1), "0.1"),
        ("", (1,), "2.1"),
        ("", (), "0.1"),
    ],
)
def test_the_storage_version_is_what_the_manifest_names_or_else_that_of_the_files(named, minors, expected):
    fragments = [fragment(n, files=(data_file(f"f{n}", minor=minor),)) for n, minor in enumerate(minors)]
    assert manifest(*fragments, data_format=("lance", named)).storage_version == expected


def test_files_of_other_versions_need_the_mark_and_legacy_files_lie_beside_none():
    old = replace(data_file("old"), column_indices=(), major=0, minor=2)
    new = fragment(1, files=(data_file("new", minor=2),))
    for made, sound in [
        (manifest(fragment(0), new), False),
        (manifest(fragment(0), new, reader_flags=256, writer_flags=256), True),
        (manifest(new, reader_flags=256, writer_flags=256), True),
        (manifest(fragment(0, files=(old,)), new, data_format=("lance", "0.1")), False),
        (manifest(fragment(0, files=(old,)), reader_flags=256, writer_flags=256), False),
        (manifest(fragment(0, files=(old,)), data_format=("", "")), True),
    ]:
        assert (not list(contradictions(made))) is sound
        if sound:
            check_readable(made, path="m")
        else:
            with pytest.raises(CorruptManifestError, match="has version"):
                check_readable(made, path="m")
