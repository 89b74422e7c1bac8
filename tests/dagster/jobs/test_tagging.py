"""Job `lance_tag`: says what it expects, and is done once however often its answer is lost."""

from dataclasses import replace

import dagster as dg
import pytest

import lance_ops as lo
from lance_ops.dagster import LanceDatasetRef
from lance_ops.dagster.jobs import tagging
from lance_ops.dagster.jobs.operations import TAG
from lance_ops.dagster.jobs.run_report import RunNotes
from lance_ops.errors import StorageError
from tests.support.dagster import failure_of, run_job
from tests.support.fleets import rows


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def ref(tmp_path):
    ref = LanceDatasetRef("warehouse/numbers", str(tmp_path / "numbers.lance"))
    for number in range(3):
        lo.append(ref.uri, rows(number, number + 1))
    return ref


def tags(ref):
    return {name: tag.version for name, tag in lo.dataset(ref.uri).tags.items()}


def lose_the_answer(monkeypatch, name, between=lambda: None):
    """Let the first call of an action be done and its answer lost; then `between` happens."""
    act, calls = getattr(tagging, name), []

    def lost(*arguments):
        done = act(*arguments)
        calls.append(done)
        if len(calls) == 1:
            between()
            raise StorageError("the answer was lost")
        return done

    monkeypatch.setattr(tagging, name, lost)
    return calls


def reexecute(monkeypatch, first):
    """Let later runs re-execute one."""
    of = RunNotes.of
    monkeypatch.setattr(
        RunNotes, "of", classmethod(lambda _, context: replace(of(context), root_run_id=first.run_id))
    )


def test_a_tag_is_created_once_moved_and_deleted(ref, instance):
    for _ in range(2):
        assert run_job(ref, TAG, instance, name="good").success
    assert tags(ref) == {"good": 3}
    assert not run_job(ref, TAG, instance, name="good", version=1).success
    assert run_job(ref, TAG, instance, name="good", version=1, action="move", moved_from=3).success
    assert tags(ref) == {"good": 1}
    assert run_job(ref, TAG, instance, name="good", action="delete", version=1).success
    assert not tags(ref)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"action": "delete"}, "it names version 3"),
        ({"action": "delete", "version": 1}, "names version 3, expected 1"),
        ({"action": "delete", "version": 3, "moved_from": 3}, "moved_from"),
        ({"action": "move", "version": 1, "moved_from": 2}, "names version 3, expected 2"),
        ({"action": "delete", "name": "other", "version": 3}, "no tag 'other'"),
        ({"action": "move", "name": "other", "version": 3}, "no tag 'other'"),
    ],
)
def test_a_tag_that_is_not_what_was_expected_stays_and_fails_the_run_at_once(ref, instance, config, said):
    lo.create_tag(ref.uri, "good")
    description, metadata = failure_of(run_job(ref, TAG, instance, **{"name": "good", **config}))
    assert said in description + str(metadata)
    assert tags(ref) == {"good": 3}


def test_a_deletion_whose_answer_was_lost_succeeds_and_leaves_a_tag_that_was_made_since(
    ref, instance, monkeypatch
):
    lo.create_tag(ref.uri, "good", 1)
    # Even one of the same version: it is another tag.
    calls = lose_the_answer(monkeypatch, "delete_tag", lambda: lo.create_tag(ref.uri, "good", 1))
    done = run_job(ref, TAG, instance, name="good", action="delete", version=1)
    assert done.success
    assert tags(ref) == {"good": 1}
    reexecute(monkeypatch, done)
    assert run_job(ref, TAG, instance, name="good", action="delete", version=1).success
    assert tags(ref) == {"good": 1}
    assert len(calls) == 1
    again = run_job(ref, TAG, instance, name="good", action="delete", version=1, rerun_token="again")
    assert again.success
    assert not tags(ref)


def test_a_deletion_that_never_happened_is_done_by_the_retry(ref, instance, monkeypatch):
    lo.create_tag(ref.uri, "good", 1)
    act, failed = tagging.delete_tag, []

    def fail_once(*arguments):
        if not failed:
            failed.append(arguments)
            raise StorageError("the store was away")
        act(*arguments)

    monkeypatch.setattr(tagging, "delete_tag", fail_once)
    assert run_job(ref, TAG, instance, name="good", action="delete", version=1).success
    assert failed
    assert not tags(ref)


def test_a_deletion_that_never_happened_is_not_said_to_have_when_the_tag_was_moved_since(
    ref, instance, monkeypatch
):
    lo.create_tag(ref.uri, "good", 1)

    def fail(*_):
        lo.move_tag(ref.uri, "good", 2)
        raise StorageError("the store was away")

    monkeypatch.setattr(tagging, "delete_tag", fail)
    description, _ = failure_of(run_job(ref, TAG, instance, name="good", action="delete", version=1))
    assert "was changed during this run" in description
    assert tags(ref) == {"good": 2}


def test_a_tag_of_the_newest_version_stays_there_when_the_answer_was_lost_and_rows_came_since(
    ref, instance, monkeypatch
):
    lose_the_answer(monkeypatch, "create_tag", lambda: lo.append(ref.uri, rows(9, 10)))
    assert run_job(ref, TAG, instance, name="good").success
    assert tags(ref) == {"good": 3}


def test_a_move_whose_answer_was_lost_succeeds_once_and_never_undoes_that_of_another(
    ref, instance, monkeypatch
):
    lo.create_tag(ref.uri, "good", 1)
    config = {"name": "good", "action": "move", "version": 2, "moved_from": 1}
    with monkeypatch.context() as patch:
        calls = lose_the_answer(patch, "move_tag")
        assert run_job(ref, TAG, instance, **config).success
    assert len(calls) == 1
    assert tags(ref) == {"good": 2}
    lo.move_tag(ref.uri, "good", 1)
    lose_the_answer(monkeypatch, "move_tag", lambda: lo.move_tag(ref.uri, "good", 3))
    description, _ = failure_of(run_job(ref, TAG, instance, **config))
    assert "was changed during this run" in description
    assert tags(ref) == {"good": 3}


@pytest.mark.parametrize(("theirs", "succeeds"), [(2, True), (3, False)])
def test_a_tag_that_comes_up_while_it_is_made_is_ours_if_it_names_the_version(
    ref, instance, monkeypatch, theirs, succeeds
):
    create = tagging.create_tag

    def taken(dataset, name, version):
        create(dataset, name, theirs)
        return create(dataset, name, version)

    monkeypatch.setattr(tagging, "create_tag", taken)
    result = run_job(ref, TAG, instance, name="v", version=2)
    assert result.success is succeeds
    assert tags(ref) == {"v": theirs}
    if not succeeds:
        assert failure_of(result)[1]["lance/error"].startswith("AlreadyExistsError")
