"""Options as they come from environments, mounted files and code; texts that may hold their values."""

import json
from base64 import b64encode, urlsafe_b64encode

import pytest

from lance_ops.errors import InvalidArgumentError, StorageError
from lance_ops.storage.options import clean_options, plain_options, redact, text_options


def test_what_is_not_set_is_left_out_and_white_space_around_a_value_too():
    assert clean_options({"a": None, "b": "x\n", "c": " y ", "d": 3, "e": ""}) == {
        "b": "x",
        "c": "y",
        "d": 3,
        "e": "",
    }
    assert text_options({"a": None, "b": True, "c": False, "d": 5}) == {"b": "true", "c": "false", "d": "5"}
    assert clean_options(None) == {}


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\0b", "a\x7fb", "a\tb"])
def test_a_control_character_is_refused_by_name_and_not_repeated(value):
    with pytest.raises(InvalidArgumentError) as caught:
        clean_options({"aws_secret_access_key": value})
    assert caught.value.field == "aws_secret_access_key"
    assert value not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    ['{\n  "type": "service_account"\n}\n', "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n"],
)
def test_documents_have_several_lines(value):
    assert clean_options({"google_service_account_key": value}) == {
        "google_service_account_key": value.strip()
    }


def test_the_text_of_a_library_becomes_one_short_line_without_secrets():
    options = {
        "aws_secret_access_key": "topsecret",
        "client_key_retries": "12",
        "endpoint": "http://me:pw1@host",
    }
    text = redact("failed with topsecret\n  at http://me:pw1@host:80/x after 12 tries " + "z" * 5000, options)
    assert "topsecret" not in text
    assert "pw1" not in text
    assert "http://***@host:80/x after 12 tries" in text
    assert "\n" not in text
    assert len(text) < 700


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("passphrase", "HUNTER22"),
        ("passwd", "HUNTER22"),
        ("auth", "HUNTER22"),
        ("kerb_ticket", "HUNTER22"),
        ("user", "HUNTER22"),
        ("an_option_of_tomorrow", "HUNTER22"),
        ("connection_string", "AccountName=a;AccountKey=HUNTER22"),
        ("endpoint", "https://h/?sig=HUNTER22"),
        ("proxy_url", "http://me:HUNTER22@h"),
        ("client_kwargs", {"headers": {"Authorization": "Bearer HUNTER22"}}),
        ("headers", [("Authorization", "Bearer HUNTER22")]),
        ("config", {"region": "eu", "deep": [{"more": ["HUNTER22"]}]}),
        ("data", b"HUNTER22"),
    ],
)
def test_an_option_that_is_not_known_to_be_harmless_is_shown_nowhere(name, value):
    for text in (f"library says: {value}", f"{{'{name}': {value!r}}}", "no key HUNTER22 in store"):
        assert "HUNTER22" not in redact(text, {name: value})
    assert "HUNTER22" not in str(plain_options({name: value}))


SPOKEN = 'HUN/TER+22"x\\='


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"password": SPOKEN}, json.dumps({"password": SPOKEN})),
        ({"password": SPOKEN}, json.dumps({"password": SPOKEN}).replace("/", "\\/")),
        ({"password": SPOKEN}, repr({"password": SPOKEN})),
        ({"password": SPOKEN}, b64encode(SPOKEN.encode()).decode()),
        ({"username": "me and", "password": SPOKEN}, b64encode(f"me and:{SPOKEN}".encode()).decode()),
        ({"headers": {"token": SPOKEN}}, urlsafe_b64encode(f":{SPOKEN}".encode()).decode()),
        ({"password": 83746291}, "83746291"),
        ({"key": b"HUN\x00TER\xff22"}, repr(b"HUN\x00TER\xff22")),
        ({"credentials": json.dumps({"deep": {"private_key": "HUNTER22x\nmore"}})}, "key HUNTER22x"),
    ],
)
def test_a_secret_is_hidden_in_every_form_that_libraries_give_it(options, said):
    shown = redact(f"library says: {said} (401)", options)
    assert shown.startswith("library says: ")
    assert shown.endswith(" (401)")
    for part in ("HUN", "TER", "22x", "8374", said.rstrip("=")):
        assert part not in shown


def test_ordinary_words_and_harmless_options_stay_in_a_text():
    options = {
        "passive": "true",
        "retries": "12",
        "wait": "1.5",
        "region": "eu-central-1",
        "host": "h.example",
    }
    text = "true: 12 tries in 1.5 s at h.example in eu-central-1"
    assert redact(text, options) == text


def test_equal_stores_have_equal_plain_options_and_other_stores_others():
    store = {"endpoint": "http://a", "aws_secret_access_key": "one", "tenant_number": "7", "passwd": "x"}
    assert plain_options(store) == plain_options({**store, "aws_secret_access_key": "two", "passwd": "y"})
    assert plain_options(store) != plain_options({**store, "tenant_number": "8"})
    assert plain_options(store) != plain_options({**store, "endpoint": "http://b"})
    assert plain_options(store) != plain_options({**store, "client_kwargs": {"endpoint_url": "http://b"}})


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("http://me:topsecret@host/x", "http://***@host/x"),
        ("http://topsecret@host/x", "http://***@host/x"),
        ("ftp://me:topsecret@host/x", "ftp://***@host/x"),
        ("simplecache::ftp://me:topsecret@host/x", "simplecache::ftp://***@host/x"),
        ("abfss://box@account.dfs.core.windows.net/x", "abfss://box@account.dfs.core.windows.net/x"),
        ("http://host:80/a@b", "http://host:80/a@b"),
        ("sftp://me:top/secret@host/x", "sftp://***@host/x"),
        ("sftp://me:topsecret@a@host/x", "sftp://***@host/x"),
        ("https://host/x?sig=topsecret&a=b", "https://host/x?***"),
        ("simplecache::https://host/x?token=topsecret#f", "simplecache::https://host/x?***"),
        ("s3://bucket/x?X-Amz-Signature=topsecret", "s3://bucket/x?***"),
        ("webhdfs://host:50070/x?delegation=topsecret", "webhdfs://host:50070/x?***"),
    ],
)
def test_no_error_shows_the_credentials_of_a_uri_wherever_it_stands(uri, shown):
    error = StorageError(f"cannot reach {uri}", path=uri, hint=f"is {uri} right?")
    assert str(error).count(shown) == 3
    assert error.path == shown
    assert "topsecret" not in repr(error)
