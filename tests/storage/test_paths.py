from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, PathEscapeError, UnsupportedError
from lance_ops.storage import is_temporary, open_store, validate_relative_path
from lance_ops.storage.paths import (
    Location,
    is_address,
    join_bucket,
    join_uri,
    just_before,
    official_uri,
    parse_location,
    plain_uri,
    split_bucket,
    validate_folder,
)
from lance_ops.uri_secrets import hide_credentials


@pytest.mark.parametrize(
    ("typed", "uri"),
    [
        ("/a/b.lance", "/a/b.lance"),
        ("/a/b.lance/", "/a/b.lance"),
        ("/a//b/../c.lance", "/a/c.lance"),
        ("/a b/%20/ü?x#y.lance", "/a b/%20/ü?x#y.lance"),
        ("file:///a/b%20c.lance", "/a/b c.lance"),
        ("file:///a/b c.lance", "/a/b c.lance"),
        ("file://localhost/a%25b", "/a%b"),
        ("FILE:///a", "/a"),
        ("file-object-store:///a", "/a"),
        ("/", "/"),
    ],
)
def test_local_addresses_become_absolute_paths(typed, uri):
    assert parse_location(typed) == Location("file", uri)


def test_relative_paths_start_at_the_working_directory_and_tilde_at_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/somewhere")
    assert parse_location("x/../y.lance").uri == f"{tmp_path}/y.lance"
    assert parse_location(Path("y.lance")).uri == f"{tmp_path}/y.lance"
    assert parse_location("~/y.lance").uri == "/somewhere/y.lance"
    assert parse_location("a~/y.lance").uri == f"{tmp_path}/a~/y.lance"


def test_symbolic_links_are_kept_as_typed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert parse_location(tmp_path / "link" / "t").uri == f"{tmp_path}/link/t"


@pytest.mark.parametrize(
    ("typed", "scheme", "uri"),
    [
        ("s3://bucket/a%20b/", "s3", "s3://bucket/a%20b"),
        ("S3://bucket", "s3", "s3://bucket"),
        ("s3://bucket/a?x=1", "s3", "s3://bucket/a"),
        ("gs://bucket/a#x", "gs", "gs://bucket/a"),
        ("memory://", "memory", "memory://"),
        ("memory://a/", "memory", "memory://a"),
        ("https://host/a", "https", "https://host/a"),
        ("simplecache::s3://bucket/a", "simplecache", "simplecache::s3://bucket/a"),
        ("abfss://box@account.dfs.core.windows.net/x", "abfss", "abfss://box@account.dfs.core.windows.net/x"),
    ],
)
def test_remote_addresses_keep_their_scheme(typed, scheme, uri):
    assert parse_location(typed) == Location(scheme, uri)


@pytest.mark.parametrize(
    "typed", ["", "file://host/a", "file://a", "s3://", "a\0b", "file:///%00", "file:///%ff"]
)
def test_addresses_without_sense_are_refused(typed):
    with pytest.raises(InvalidArgumentError):
        parse_location(typed)


@pytest.mark.parametrize(
    ("typed", "uri"),
    [
        ("s3a://bucket/a%20b?x=1", "s3://bucket/a%20b"),
        ("S3N://bucket/a", "s3://bucket/a"),
        ("gcs://bucket/a", "gs://bucket/a"),
        ("wasbs://box@account.blob.core.windows.net/x", "abfss://box@account.dfs.core.windows.net/x"),
        ("wasb://box@account.blob.core.windows.net", "abfs://box@account.dfs.core.windows.net"),
    ],
)
def test_aliases_of_object_stores_become_the_schemes_that_pylance_knows(typed, uri):
    assert parse_location(typed) == Location(uri.partition(":")[0], uri)


@pytest.mark.parametrize(
    ("typed", "path"),
    [("file:/a/b%20c.lance", "/a/b c.lance"), ("FILE:/a/", "/a"), (Path("file:///a/b"), "/a/b")],
)
def test_a_local_uri_with_one_slash_is_the_local_path(typed, path):
    assert parse_location(typed) == Location("file", path)
    assert is_address(str(typed))


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *((f"{scheme}:/bucket/x.lance", f"{scheme}://bucket/x.lance") for scheme in
          ("s3", "s3a", "s3n", "gs", "gcs", "az", "abfss", "dbfs", "hdfs", "memory", "foo", "s3+ddb")),
        (Path("s3://bucket/x.lance"), "s3://bucket/x.lance"),
        (Path("s3://"), "s3://"),
        ("S3:/bucket", "S3://bucket"),
        ("s3:bucket/x", "s3://bucket/x"),
        ("s3:\\bucket", "s3://bucket"),
        (" s3://bucket/x", "s3://bucket/x"),
        ("\ts3:/bucket/x", "s3://bucket/x"),
        ("s3:/bucket/x?sig=topsecret", "s3://bucket/x"),
        ("sftp:/me:topsecret@host/x", "sftp://***@host/x"),
        ("s3:///bucket/x", "s3://bucket/path"),
        ("file:a/b", "file://a/b"),
        ("C:/x", "Windows"),
        ("c:\\x", "Windows"),
        ("x://y", "Windows"),
    ],
)  # fmt: skip
def test_a_misspelt_scheme_is_refused_with_the_spelling_that_works(typed, meant, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgumentError) as caught:
        lo.append(typed, pa.table({"a": [1]}))
    assert meant in caught.value.hint
    assert "topsecret" not in str(caught.value)
    assert not list(tmp_path.iterdir())
    assert str(typed).startswith("s3:///") or is_address(str(typed))


def test_a_local_folder_that_is_named_like_a_scheme_is_reached_from_a_dot(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lo.append("./s3:/bucket/x.lance", pa.table({"a": [1]}))
    assert lo.dataset(tmp_path / "s3:" / "bucket" / "x.lance").count_rows() == 1
    for path in ("a:b.lance", "./c:/x", "12:30/t.lance", "day=2024-05-01T10:00/x"):
        assert parse_location(path).uri == f"{tmp_path}/{path.removeprefix('./')}"
        assert not is_address(path)


def test_a_prefix_is_decoded_once_and_children_are_encoded():
    assert split_bucket("s3://bucket/a%20b/c%2525") == ("s3://bucket", "a b/c%25")
    assert split_bucket("s3://bucket") == ("s3://bucket", "")
    for name in ["x y", "100%", "a%20b", "q?", "h#"]:
        assert split_bucket(join_bucket("s3://bucket/p", name)) == ("s3://bucket", f"p/{name}")
    with pytest.raises(InvalidArgumentError):
        split_bucket("s3://bucket/a/%2e%2e/b")


def test_credentials_in_a_uri_are_hidden():
    assert hide_credentials("sftp://me:secret@host/x") == "sftp://***@host/x"
    assert hide_credentials("abfss://box@account/x") == "abfss://box@account/x"


@pytest.mark.parametrize(
    "path", ["a", "a/b", "_versions/1.manifest", "a b/ü", "...", "..a", "a..", "~", "%2e%2e", "ab:c"]
)
def test_paths_below_the_root_are_returned_unchanged(path):
    assert validate_relative_path(path) == path


@pytest.mark.parametrize(
    "path",
    ["", ".", "..", "../a", "a/..", "a/../b", "/a", "a/", "a//b", "./a",
     "a\\b", "\\\\host\\x", "C:\\x", "c:/x",
     "c:x", "a\0", "a\n", "a\x7f", "s3://bucket/x", "file:///x"],
)  # fmt: skip
def test_paths_that_may_leave_the_root_are_refused(path):
    with pytest.raises(PathEscapeError):
        validate_relative_path(path)


@given(st.text(alphabet="a./\\:~\0 %C", max_size=12))
def test_an_accepted_path_never_leaves_the_root(path):
    try:
        validate_relative_path(path)
    except PathEscapeError:
        return
    joined = Path("/root/x") / path
    assert joined.resolve().is_relative_to("/root/x/")
    assert joined.resolve() != Path("/root/x")


def test_folders_may_be_the_root_and_end_in_a_slash():
    assert [validate_folder(path) for path in ["", "a", "a/"]] == ["", "a", "a"]
    for path in ["/", "a//", "../"]:
        with pytest.raises(PathEscapeError):
            validate_folder(path)
    assert join_uri("/", "a") == "/a"
    assert join_uri("memory://", "a") == "memory://a"


def test_temporary_files_of_both_libraries_are_recognised():
    assert is_temporary("_versions/.tmp_1.manifest_abc")
    assert is_temporary(".tmpAb3d9f")
    assert not is_temporary("data/x.lance")
    assert not is_temporary(".tmp_folder/x")


def test_open_store_creates_nothing(tmp_path):
    store = open_store(tmp_path / "x")
    assert store.uri == f"{tmp_path}/x"
    assert list(store.list("")) == []
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "uri",
    [
        "s3://key:topsecret@bucket/x",
        "s3://KEY:top/secret@bucket/x",
        "s3a://topsecret@bucket/x",
        "gs://me:topsecret@bucket",
        "az://me:topsecret@box/x",
        "abfss://box:topsecret@account/x",
        "s3://bucket:topsecret/x",
        "ftp://me:topsecret@host/x",
        "sftp://me:topsecret@host/x",
        "http://topsecret@host/x",
        "simplecache::ftp://me:topsecret@host/x",
    ],
)
def test_credentials_in_a_uri_are_refused_and_not_repeated(uri):
    with pytest.raises(InvalidArgumentError, match="storage options") as caught:
        parse_location(uri)
    assert "secret" not in str(caught.value).replace("a secret", "").replace("aws_secret_access_key", "")


@pytest.mark.parametrize(
    "uri",
    [
        "https://h.invalid/x?sig=topsecret",
        "https://h.invalid/x?a=b&X-Amz-Signature=topsecret#f",
        "webhdfs://h.invalid/x?delegation=topsecret",
        "simplecache::https://h.invalid/x?token=topsecret",
        "sftp://user:top/secret@h.invalid/x",
        "sftp://user:topsecret@more@h.invalid/x",
        "sftp://user:to?p=/secret@h.invalid/x",
        "s3://bucket:topsecret/x?sig=topsecret",
        "s3:/bucket/x?sig=topsecret",
        "s3:///bucket?sig=topsecret",
        "memory://x?token=topsecret",
    ],
)
def test_signed_uris_are_refused_and_not_repeated(uri):
    with pytest.raises(InvalidArgumentError) as caught:
        parse_location(uri)
    for part in ("topsecret", "top/sec", "/secret", "more@"):
        assert part not in str(caught.value)


def test_a_signature_behind_the_uri_of_a_bucket_is_dropped_and_shown_nowhere():
    assert parse_location("s3://bucket/x?X-Amz-Signature=topsecret").uri == "s3://bucket/x"


@pytest.mark.parametrize("name", ["ddbTableName", "ddbtablename", "dynamodb_endpoint", "DYNAMODB_ENDPOINT"])
@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_options_that_leave_versions_to_dynamodb_are_refused(name, scheme):
    with pytest.raises(UnsupportedError, match="decided by DynamoDB") as caught:
        open_store(f"{scheme}://bucket/t.lance", {name: "versions", "region": "eu-central-1"})
    assert caught.value.field == name
    assert "s3+ddb://" in caught.value.hint
    with pytest.raises(UnsupportedError, match="decided by DynamoDB"):
        parse_location(f"{scheme}://bucket/t.lance?x=1&ddbTableName=versions")


def test_the_container_of_an_account_is_no_secret():
    uri = "abfss://box@account.dfs.core.windows.net/x"
    assert parse_location(uri).uri == uri


@pytest.mark.parametrize(
    "uri",
    [
        "s3+ddb://bucket/a/table.lance?ddbTableName=ver.s-1",
        "s3+ddb://bucket/a/table.lance/?ddbTableName=ver.s-1",
        "s3+ddb://ver.s-1@bucket/a/table.lance",
        "s3+ddb://ver.s-1@bucket/a/table.lance/",
    ],
)
def test_the_table_of_dynamodb_stands_before_the_bucket(uri):
    location = parse_location(uri)
    assert (location.scheme, location.uri) == ("s3+ddb", "s3+ddb://ver.s-1@bucket/a/table.lance")
    assert parse_location(location.uri) == location
    assert official_uri(location.uri) == "s3+ddb://bucket/a/table.lance?ddbTableName=ver.s-1"
    assert plain_uri(location.uri) == plain_uri(uri).rstrip("/") == "s3://bucket/a/table.lance"


@pytest.mark.parametrize(
    "uri",
    [
        "s3+ddb://bucket/table.lance",
        "s3+ddb://bucket/table.lance?ddbTableName=",
        "s3+ddb://bucket/table.lance?ddbTableName=a",
        "s3+ddb://bucket/table.lance?ddbTableName=abc&x=1",
        "s3+ddb://bucket/table.lance?x=1",
        "s3+ddb://abc@bucket/table.lance?ddbTableName=abc",
        "s3+ddb:///table.lance?ddbTableName=abc",
        "s3+ddb://?ddbTableName=abc",
        "s3+ddb://abc@/table.lance",
        "s3+ddb://a/c@bucket/table.lance",
    ],
)
def test_an_address_with_anything_but_one_table_of_dynamodb_is_refused(uri):
    with pytest.raises(InvalidArgumentError, match="table of DynamoDB"):
        parse_location(uri)


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1), st.text())
def test_what_is_just_before_a_path_is_before_all_that_is_after_it(path, rest):
    if path.strip("/"):
        before = just_before(path).encode()
        assert before < path.rstrip("/").encode()
        assert before < (path + rest).encode(errors="surrogatepass")
