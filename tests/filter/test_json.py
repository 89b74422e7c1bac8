"""Functions of JSON columns give what the peer's give, and refuse the documents that it refuses."""

import itertools

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import PredicateError
from lance_ops.filter import evaluate_values, parse_filter, select
from lance_ops.filter.expression import Function
from lance_ops.filter.functions.json import to_text
from lance_ops.filter.functions.json_path import follow, parse_path

NUMBERS = (  # noqa: SIM905
    "1 -7 1.5 1.0 2.5 3.5 -2.5 1e3 1e300 18446744073709551615 9223372036854775807 9223372036854775808 "
    "-9223372036854775808 1e400 0 0.0 -0.0 1e-7 123456789012345678901234567890 0.1 1e16 1e15 1e21 "
    "0.5 -0.5 1e-5"
).split()
WORDS = (  # noqa: SIM905
    "x 42 1.5 true TRUE false t yes No on 1 0 1e3 +5 -5 inf NaN 0x10 null 9223372036854775808 1_000 .5 5. "
    "infinity -inf Tru ٣"
).split()
VALUES = [
    *NUMBERS,
    *(f'"{word}"' for word in WORDS),
    *('""', '" 1 "', "true", "false", "null", "[1]", "[]", "{}", '{"b":2}'),
    *('{"k":[1,2,"three",{"z":9}],"é":1,"Z":2}', '[1,2.0,"1",null,true,[7],{"k":1}]', "[[1,2],[3]]"),
    '"q\\u0001\\u007f\\t\\"\\\\/\\u2028"',
]
DOCUMENTS = [
    *(f'{{"a":{value},"arr":[10,20,30]}}' for value in VALUES),
    *(
        '[1,"two",{"a":5},[7,8]]',
        '"str"',
        "5",
        "null",
        "true",
        "{}",
        "[]",
        '{"a b":1,"x.y":2,"a":{"a":3}}',
        None,
    ),
]
# Not `[0 to 1]` where an array may be empty: the peer never ends there.
PATHS = [
    *(
        "$",
        "",
        "a",
        "$.a",
        ".a",
        "$.a.k",
        "$.a[*]",
        "$.a.*",
        "$.a[last]",
        "$.arr[0,1 to last]",
        "$.arr[0 to 1]",
    ),
    *(
        "$.**",
        "$.a.**",
        "$.a[3].z",
        "$.a.k[3].z",
        "$.a[5]",
        "$[0]",
        "$[2].a",
        '$["a"]',
        '$."a"',
        " $ .a[ 0 ] ",
    ),
    *(
        "$:a",
        "a:k",
        "$.arr[last - 1]",
        "$.arr[last+1]",
        "$.arr[-1 to 1]",
        "$.arr[2 to 0]",
        "$.arr[-1]",
        '$.a."é"',
    ),
    *("$.a.é", "$.missing", "$.a[0][0]", "$.*", "$[*]", "$.**.k", "$.**[0]", "$.*.*", "$.*[1]", "$.arr[0,0]"),
    *('$["a b"]', '$."x.y"', "$.x.y", "$.arr[00]", "$.arr.0", '$["\\u0061"]'),
]
NO_PATHS = ("$.a..b", "$.a[", "$.", "a b", "$['a']", "$.a-b", "*", "$.a.", "$.arr[99999999999]", "@.a", "$a")
NO_PATHS += ("strict $.a", "$.a[]", "$.a[x]", "$.a]", "$.arr[1.5]", "$.arr[0:2]", "$.a.size()", "{a}", "/a/b")


def rows(documents):
    return pa.table({"id": range(len(documents)), "j": pa.array(documents, pa.json_())})


def value(sql, table):
    """What an expression gives for each row, though it is no condition."""
    condition = parse_filter(f"({sql}) IS NULL", table.schema)
    found = next(node for node in condition.walk() if isinstance(node, Function))
    return evaluate_values(found, table).to_pylist()


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


@pytest.fixture(scope="module")
def peer(tmp_path_factory):
    lance = pytest.importorskip("lance")
    return lance.write_dataset(rows(DOCUMENTS), str(tmp_path_factory.mktemp("json") / "rows.lance"))


@pytest.mark.peer
@pytest.mark.parametrize("path", PATHS)
def test_paths_lead_to_what_they_lead_to_in_the_peer(peer, path):
    calls = [f"{name}(j, {quoted(path)})" for name in ("json_extract", "json_exists", "json_array_length")]
    wanted = ("1", "two", '"1"', "null", "true", "2.0", "[7]", "10")
    calls += [f"json_array_contains(j, {quoted(path)}, {quoted(item)})" for item in wanted]
    theirs = peer.to_table(columns={f"c{number}": call for number, call in enumerate(calls)})
    for call, column in zip(calls, theirs.columns, strict=True):
        assert value(call, rows(DOCUMENTS)) == column.to_pylist(), call


@pytest.mark.peer
@pytest.mark.parametrize("path", NO_PATHS)
def test_what_is_no_path_is_refused_by_both(peer, path):
    for name in ("json_extract", "json_exists", "json_array_length"):
        sql = f"{name}(j, {quoted(path)}) IS NULL"
        with pytest.raises((OSError, ValueError)):
            peer.to_table(filter=sql)
        with pytest.raises(PredicateError, match="JSON path"):
            select(parse_filter(sql, rows(DOCUMENTS).schema), rows(DOCUMENTS))


@pytest.mark.peer
@pytest.mark.parametrize("name", ["json_get_string", "json_get_int", "json_get_float", "json_get_bool"])
def test_values_become_what_they_become_in_the_peer(peer, name):
    good, bad = [], []
    for number, document in enumerate(DOCUMENTS):
        try:
            good.append((number, value(f"{name}(j, 'a')", rows([document]))[0]))
        except PredicateError:
            bad.append(number)
    numbers = ", ".join(str(number) for number, _ in good)
    theirs = peer.to_table(columns={"v": f"{name}(j, 'a')"}, filter=f"id IN ({numbers})")["v"].to_pylist()
    assert [repr(found) for _, found in good] == [repr(found) for found in theirs]
    for number in bad:
        with pytest.raises((OSError, ValueError)):
            peer.to_table(columns={"v": f"{name}(j, 'a')"}, filter=f"id = {number}")


@pytest.mark.peer
@pytest.mark.parametrize(
    "call",
    [
        *(
            f"json_get_string(j, {key})"
            for key in ("0", "1", "'1'", "'+1'", "'01'", "' 1'", "true", "1.0", "'-1'")
        ),
        *("json_get_string(j, NULL)", "json_extract(j, NULL)", "json_array_contains(j, 'a', NULL)"),
        *("json_get_int(json_get(j, 'arr'), 1)", "json_extract(json_get(j, 'a'), '$.k')", "json_get(j, 'a')"),
        *("JSON_Exists(j, concat('$.', 'a'))", "json_get_int(j, '')", "json_array_contains(j, 'arr', 10)"),
    ],
)
def test_keys_and_nesting_mean_what_they_mean_in_the_peer(peer, call):
    flat = f"json_extract({call}, '$')" if call == "json_get(j, 'a')" else call
    numbers = [n for n, text in enumerate(DOCUMENTS) if text is None or '"a":[' not in text]
    where = f"id IN ({', '.join(map(str, numbers))})"
    theirs = peer.to_table(columns={"v": flat}, filter=where)["v"].to_pylist()
    assert value(flat, rows([DOCUMENTS[number] for number in numbers])) == theirs


@pytest.mark.peer
def test_filters_select_the_same_rows_and_say_so_in_transactions(peer):
    dataset = lo.dataset(peer.uri)
    for sql in (
        "json_exists(j, '$.a.k') OR json_array_length(j, 'a') > 1",
        "json_extract(j, '$.a') = '1' AND id < 100",
        "id = 0 AND json_get_int(j, 'a') = 1",
        "NOT json_array_contains(j, '$.arr', '10')",
        "json_get(j, 'a') IS NULL",
        "json_extract(j, 'a') LIKE '%1%' AND json_extract(j, 'a') IN ('1', '\"1\"', 'null')",
        "lower(json_extract(j, '$.a')) = '\"true\"'",
        "CASE WHEN id = 1 THEN json_get_int(j, 'a') < 0 ELSE false END IS TRUE",
    ):
        theirs = peer.to_table(filter=f"({sql})" if "CASE" not in sql else "id = 1")["id"].to_pylist()
        assert dataset.to_table(filter=sql)["id"].to_pylist() == theirs, sql
        canonical = dataset.parse_filter(sql).to_sql()
        assert dataset.parse_filter(canonical) == dataset.parse_filter(sql)
        assert peer.to_table(filter=canonical)["id"].to_pylist() == theirs, canonical


def test_delete_with_a_json_condition(tmp_path):
    lo.write_dataset(rows(['{"n": 1}', '{"n": 2}', None, '{"n": 2}']), tmp_path)
    lo.delete(tmp_path, "json_get_int(j, 'n') = 2")
    assert lo.dataset(tmp_path).to_table()["id"].to_pylist() == [0, 2]


@pytest.mark.parametrize(
    "text", ["j = '5'", "j LIKE '%a%'", "j = j", "j IN ('a')", "lower(j) = 'a'", "j < j"]
)
def test_documents_themselves_are_not_compared(text):
    with pytest.raises(PredicateError):
        parse_filter(text, rows(DOCUMENTS).schema)


@pytest.mark.parametrize(
    "text", ["json_extract(s, '$.a') = '1'", "json_get_int(j) = 1", "json_get(j, 'a', 'b') IS NULL"]
)
def test_wrong_arguments_are_refused(text):
    table = rows(["{}"]).append_column("s", pa.array(["{}"]))
    with pytest.raises(PredicateError):
        parse_filter(text, table.schema)


def test_documents_inside_structs_and_paths_from_columns():
    documents = ['{"a": 1, "b": 2}', '{"a": 3, "b": 4}']
    storage = pa.array([{"j": text, "p": path} for text, path in zip(documents, "ab", strict=True)])
    kind = pa.struct([("j", pa.json_()), ("p", pa.string())])
    members = [pa.array(documents, pa.json_()), storage.field("p")]
    table = pa.table({"s": pa.StructArray.from_arrays(members, fields=list(kind))})
    assert value("json_get_int(s.j, s.p)", table) == [1, 4]


def test_deep_documents_and_long_paths_end():
    deep = "[" * 200 + "]" * 200
    assert value("json_extract(j, '$')", rows([deep])) == [deep]
    assert value(f"json_extract(j, '${'[0]' * 199}')", rows([deep])) == ["[]"]
    assert len(follow([[[]]], parse_path("$.**"))) == 3
    deeper = "[" * 100_000 + "]" * 100_000
    with pytest.raises(PredicateError, match="nested too deeply"):
        value("json_extract(j, '$')", rows([deeper]))


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"b": 1, "a": [1.0, 1e-7, True]}, '{"a":[1.0,1e-7,true],"b":1}'),
        ("é\n", '"é\\n"'),
        (float("inf"), "null"),
    ],
)
def test_text_of_a_document_is_canonical(document, text):
    assert to_text(document) == text


def test_constants_fold(peer):
    del peer
    table = rows(["{}"])
    for first, second in itertools.product(("NULL", "j"), ("NULL", "'$.a'")):
        assert value(f"coalesce(json_extract({first}, {second}), lower(json_extract(j, '$.a')))", table) == [
            None
        ]
