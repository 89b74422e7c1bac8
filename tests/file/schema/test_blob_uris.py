"""Names of blobs outside of the dataset."""

import pytest

from lance_ops.errors import PathEscapeError
from lance_ops.file.schema.blob_uris import path_within, uri_within

BASES = {3: "s3://bucket/a", 5: "s3://bucket/a/b%20c/", 7: "file:///data"}


@pytest.mark.parametrize("number", BASES)
@pytest.mark.parametrize("path", ["k", "x/y.bin", "100%", "%41", "a b", "q?r#s", "\u00fc", "a+b=c&d"])
def test_a_path_and_its_uri_say_the_same(number: int, path: str) -> None:
    assert path_within(uri_within(BASES[number], path), BASES) == (number, path)


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("s3://bucket/a/b c/k", (5, "k")),
        ("s3://bucket/a/b%20c", (3, "b c")),
        ("s3://bucket/ab/k", None),
        ("s3://bucket/a", None),
        ("s3://bucket/a/", None),
        ("s3://bucket/a/../k", None),
        ("s3://bucket/a/k?version=1", None),
        ("s3://bucket/a/%ff", None),
        ("gs://bucket/a/k", None),
    ],
)
def test_the_innermost_base_is_found(uri: str, found: tuple[int, str] | None) -> None:
    assert path_within(uri, BASES) == found


def test_a_path_does_not_leave_its_base() -> None:
    with pytest.raises(PathEscapeError):
        uri_within("s3://bucket/a", "../k")
