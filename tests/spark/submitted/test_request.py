"""Requests and answers travel as JSON, and are on the other side what they were on this one."""

import inspect
import json
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops import errors
from lance_ops.maintenance.ingest.partition_rows import Bound, PartitionRule, rows_of_partition
from lance_ops.maintenance.progress import ProgressEvent
from lance_ops.maintenance.results import AppendResult
from lance_ops.maintenance.runner import LocalRunner
from lance_ops.spark.submitted import answer
from lance_ops.spark.submitted.ingest import ingest, ingest_arguments
from lance_ops.spark.submitted.operations import operate
from lance_ops.spark.submitted.request import (
    FromEnvironment,
    Request,
    import_named,
    pack_options,
    unpack_options,
)


def sent(value):
    return json.loads(json.dumps(value))


def test_a_request_of_another_release_is_refused_and_says_so():
    request = Request("compact", "/lake/a", {"dry_run": True}, "key", {"p": "v"})
    assert Request.from_dict(sent(request.to_dict())) == request
    with pytest.raises(errors.InvalidArgumentError, match="same release"):
        Request.from_dict({**request.to_dict(), "schema": 2})


def test_a_secret_goes_by_the_name_of_its_variable(monkeypatch):
    packed = sent(pack_options({"region": "eu", "key": FromEnvironment("LANCE_OPS_KEY")}))
    assert packed == {"region": "eu", "key": {"env": "LANCE_OPS_KEY"}}
    monkeypatch.setenv("LANCE_OPS_KEY", "s3cret")
    assert unpack_options(packed) == {"region": "eu", "key": "s3cret"}
    monkeypatch.delenv("LANCE_OPS_KEY")
    with pytest.raises(errors.InvalidArgumentError, match="LANCE_OPS_KEY, which is not set here"):
        unpack_options(packed)


def test_what_is_not_there_by_its_name_is_said():
    assert import_named("json:dumps", field="source") is json.dumps
    for name in ("json", "json:no", "no_such_module:x", ":x"):
        with pytest.raises(errors.InvalidArgumentError, match="cannot import"):
            import_named(name, field="source")


KINDS = [
    kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.LanceOpsError)
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_arrives_as_what_it_was(kind):
    if issubclass(kind, errors.CommitConflictError):
        error = kind("in the way", ours="Delete", theirs="Rewrite", version=7, path="/lake/a")
    elif kind is errors.SchemaMismatchError:
        error = kind("does not fit", ["a: int", "b: text"], path="/lake/a")
    elif kind is errors.UnsupportedFeatureError:
        error = kind("unknown flag", [64])
    elif kind is errors.PolicyError:
        error = kind([errors.PolicyProblem(1, "x", "wrong")])
    else:
        error = kind("went wrong", path="/lake/a", field="f", hint="do this")
    cause = errors.TaskFailedError("task 1 of 2 failed")
    cause.__cause__ = error
    arrived = answer.unpack_error(sent(answer.pack_error(cause)))
    assert isinstance(arrived, errors.TaskFailedError)
    origin = arrived.__cause__
    assert type(origin) is kind
    assert str(origin) == str(error)
    assert (origin.message, origin.path, origin.field, origin.hint) == (
        error.message,
        error.path,
        error.field,
        error.hint,
    )
    if issubclass(kind, errors.CommitConflictError):
        assert (origin.ours, origin.theirs, origin.version) == ("Delete", "Rewrite", 7)


def test_an_error_of_other_code_is_a_task_that_failed_even_if_it_has_a_name_of_ours():
    for kind in (RuntimeError, type("StorageError", (Exception,), {})):
        arrived = answer.unpack_error(sent(answer.pack_error(kind("no rows today"))))
        assert type(arrived) is errors.TaskFailedError
        assert "no rows today" in str(arrived)


def test_progress_arrives():
    event = ProgressEvent("compact", 1, 3, "rewritten", bytes_done=5, bytes_total=9, seconds_left=1.5)
    assert answer.unpack_progress(sent(answer.pack_progress(event))) == event
    assert not answer.is_outcome(answer.pack_progress(event))


def done(operation, uri, arguments, key="k"):
    """The outcome of an operation here, as it arrives elsewhere."""
    outcome = operate(
        Request(operation, uri, sent(arguments), key),
        runner=LocalRunner(1),
        progress=None,
        storage_options=None,
    )
    packed = sent(answer.pack_outcome(outcome))
    assert answer.is_outcome(packed)
    return outcome, answer.unpack_outcome(packed)


def test_results_and_plans_arrive_with_their_numbers_and_words(tmp_path):
    uri = str(tmp_path / "t.lance")
    for start in (0, 10):
        lo.append(uri, pa.table({"x": range(start, start + 10)}))
    (tmp_path / "more.csv").write_text("x\n20\n21\n")
    steps = [
        ("append", {"paths": [str(tmp_path / "more.csv")]}),
        ("add_columns", {"values": {"y": "x * 2"}, "function": "", "dry_run": False}),
        ("delete", {"predicate": "x = 3", "dry_run": False}),
        ("create_index", {"column": "x", "kind": "BTREE"}),
        ("compact", {"target_rows_per_fragment": 100}),
    ]
    for operation, arguments in steps:
        here, there = done(operation, uri, arguments, operation)
        assert str(there) == str(here)
        assert there.to_dict() == sent(here.to_dict())
        assert (there.changed, there.version, there.lost_to) == (here.changed, here.version, here.lost_to)
        assert not here.already_committed
        again, _ = done(operation, uri, arguments, operation)
        assert again.already_committed or not again.changed
    planned, words = done("delete", uri, {"predicate": "x = 4", "dry_run": True})
    assert words == str(planned)
    assert lo.dataset(uri).count_rows() == 21
    with pytest.raises(errors.InvalidArgumentError, match="unknown operation 'drop'"):
        done("drop", uri, {})


def test_an_append_that_arrives_is_an_append(tmp_path):
    uri = str(tmp_path / "t.lance")
    (tmp_path / "rows.csv").write_text("x\n1\n")
    here, there = done("append", uri, {"paths": [str(tmp_path / "rows.csv")]})
    assert there == here
    assert isinstance(there, AppendResult)


BERLIN = ZoneInfo("Europe/Berlin")


def rows_of_hours(request):
    """A source: a row at the start of the partition."""
    return pa.table(
        {
            "at": pa.array([request.time_window.start], pa.timestamp("us", "UTC")),
            "shown": pa.array([request.wall_clock_window[0]], pa.timestamp("us")),
            "key": [request.partition_key],
        }
    )


@pytest.mark.parametrize("column", ["at", "shown"])
def test_a_partition_replaces_its_rows_elsewhere_as_here(tmp_path, column):
    uri = str(tmp_path / "t.lance")
    start, end = (datetime(2024, 10, 27, hour, tzinfo=UTC).astimezone(BERLIN) for hour in (0, 1))
    bounds = Bound.of(start), Bound.of(end)
    rules = [PartitionRule(column, "02:00", *bounds)]
    arguments = ingest_arguments(
        f"{__name__}:rows_of_hours",
        partition_key="02:00",
        window=(start, end),
        wall_clock_window=(bounds[0].wall_clock, bounds[1].wall_clock),
        mode="replace_where",
        on=(),
        predicate=rules,
        options={},
    )
    for key in ("first", "second"):
        result = ingest(
            Request("ingest", uri, sent(arguments), key),
            None,
            runner=LocalRunner(1),
            progress=lambda _: None,
            storage_options={},
        )
        assert result.rows_added == 1
    head = lo.dataset(uri)
    assert head.count_rows() == head.count_rows(rows_of_partition(rules, head.schema)) == 1
    assert head.version == 2
