"""Survey of many datasets in threads with a deadline: new versions and damage.

A dataset is at rest while its newest manifest is the one that the sensor has dealt with. Dagster reads the
whole newest event of a dataset with all of its metadata, so of many datasets at rest a tick asks only for
some, in turns: events that a user wiped, or published out of order, are noticed a few ticks later.

Nothing here touches Dagster's instance, which belongs to the thread of the sensor.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import blake2b

from lance_ops.dagster import keys
from lance_ops.dagster.checks.catalog import CHECKS
from lance_ops.dagster.checks.evaluate import CheckOutcome, applies, evaluate_checks
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.publication import (
    Published,
    VersionEvent,
    build_version_events,
    existing_versions,
    is_of_another_dataset,
    now_utc,
    plan_publication,
)
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.sensor.cursor import DatasetCursor
from lance_ops.errors import FormatError, NotFoundError, UnsupportedError
from lance_ops.storage import Store
from lance_ops.storage.fork_safe import new_lock
from lance_ops.storage.prefetch import look_at_many
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.file.summary import read_summary
from lance_ops.table.manifest.listing import latest, listed_once, locate, mark_of

_ASKED = 200
"""Minimum number of unchanged datasets whose newest events a tick reads."""
_TICKS = 20
"""Ticks in which all of them are read."""
_THREADS = 8
_MOST_OF_A_DAMAGE = 300
_ENTRY = 150
"""Characters of an entry in the cursor, without its name."""
_MAX_FILES = 1000
"""Maximum files to check after each version; more would take too long."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Result of surveying a dataset.

    Attributes:
        head: Newest version by the listing; None when even that failed.
        events: Events of the readable versions above the cursor, oldest first.
        outcomes: Checks on the newest readable version; empty if they were not needed.
        error: Error of reading the newest version.
        of_another: The newest event, if it is of an earlier dataset at the same place: then all versions of
            this one are published.
        checked_at: Time of full checks, files included, in seconds since 1970; None without them.
        mark: Mark of the manifest of the newest version, from before it was read; None if unknown.
    """

    head: int | None
    events: tuple[VersionEvent, ...] = ()
    outcomes: tuple[CheckOutcome, ...] = ()
    error: Exception | None = None
    of_another: Published | None = None
    checked_at: int | None = None
    mark: str | None = None

    def damage_since(self, before: str | None) -> str | None:
        """Return the damage in one line; None without any.

        Args:
            before: Previous damage: an incomplete survey does not clear it.
        """
        return self.damage or (before if self.checked_at is None else None)

    @property
    def damage(self) -> str | None:
        """Return the damage found by this survey in one line; None without any."""
        if self.error is not None:
            return _cut(f"{type(self.error).__name__}: {self.error}")
        failed = [outcome for outcome in self.outcomes if outcome.severe and not outcome.passed]
        return _cut("; ".join(f"{outcome.name}: {outcome.description}" for outcome in failed)) or None


@dataclass(slots=True)
class Room:
    """Remaining capacity of a tick, so that no survey is wasted.

    Attributes:
        events: Maximum events; None for no limit.
        characters: Maximum characters in its cursor for the entries of new or changed datasets.
    """

    events: int | None = None
    characters: int | None = None
    _lock: threading.Lock = field(default_factory=new_lock)

    @property
    def is_used_up(self) -> bool:
        """True if no further dataset fits."""
        return any(left is not None and left <= 0 for left in (self.events, self.characters))

    def take(self, name: str, survey: Survey) -> None:
        """Subtract the capacity for a survey result."""
        with self._lock:
            if self.events is not None:
                self.events -= len(survey.events) + max(1, len(survey.outcomes))
            if self.characters is not None:
                self.characters -= _ENTRY + len(name) + len(survey.damage or "")


def _cut(text: str) -> str:
    """Truncate a text for the state; different long texts stay different."""
    if len(text) <= _MOST_OF_A_DAMAGE:
        return text
    return f"{text[:_MOST_OF_A_DAMAGE]}... [{blake2b(text.encode(), digest_size=4).hexdigest()}]"


def survey_datasets(
    refs: Sequence[LanceDatasetRef],
    cursors: Mapping[str, DatasetCursor],
    store: LanceStoreResource,
    *,
    newest: int,
    deadline: float,
    grace: timedelta = timedelta(0),
    published: Mapping[str, Published | None],
    full: Collection[str] = (),
    again: Collection[str] = (),
    room: Room | None = None,
) -> dict[str, Survey]:
    """Survey datasets until the deadline, or until a tick has no more capacity.

    Args:
        refs: The datasets, the most urgent first.
        cursors: Their entries, by name.
        store: Opens the datasets.
        newest: Number of versions of a burst with their own events.
        deadline: `time.monotonic()` at which to stop.
        grace: How old versions are that share one event when no event of a dataset exists yet. A run
            may still report younger ones.
        published: The newest event of each, by name, from before this look.
        full: Names of those that are to be checked in full although nothing may be new.
        again: Names of those whose checks are to be evaluated again although nothing may be new.
        room: Of the tick; unbounded when None.

    Returns:
        Surveys by name; datasets that were not finished in time, or not started, are missing.
    """
    room = room or Room()

    def look(ref: LanceDatasetRef) -> Survey | None:
        if room.is_used_up:
            return None
        cursor = cursors.get(ref.name, DatasetCursor())
        survey = survey_dataset(
            ref,
            cursor,
            store,
            newest=newest,
            grace=grace,
            published=published.get(ref.name),
            full=ref.name in full,
            again=ref.name in again,
        )
        if survey.events or survey.damage_since(cursor.problem) != cursor.problem:
            room.take(ref.name, survey)
        return survey

    return _look_at_all(refs, look, deadline)


def _look_at_all(
    refs: Sequence[LanceDatasetRef], look: Callable[[LanceDatasetRef], Survey | None], deadline: float
) -> dict[str, Survey]:
    """Surveys by name, of those that were looked at before the deadline and gave one."""
    # A look that hangs in a slow store must not hold up the tick; the store's timeout ends its thread.
    looks = look_at_many(refs, look, _THREADS, deadline=deadline, waits=False)
    return {ref.name: survey for ref, survey in looks if survey is not None}


def asked_in_turn(refs: Sequence[LanceDatasetRef], start: int) -> tuple[list[LanceDatasetRef], int]:
    """Return the datasets whose newest events a tick reads in any case, and the next offset.

    Args:
        refs: All datasets, in a fixed order.
        start: Where this tick starts.
    """
    count = max(_ASKED, -(-len(refs) // _TICKS))
    if count >= len(refs):
        return list(refs), 0
    first = start % len(refs)
    turn = [*refs[first:], *refs[:first]]
    return turn[:count], (first + count) % len(refs)


def find_at_rest(
    refs: Sequence[LanceDatasetRef],
    cursors: Mapping[str, DatasetCursor],
    store: LanceStoreResource,
    *,
    deadline: float,
) -> dict[str, Survey]:
    """Return the unchanged datasets, with what was found.

    Args:
        refs: The datasets.
        cursors: Their entries, by name.
        store: Opens the datasets.
        deadline: `time.monotonic()` at which to stop; datasets without an answer by then are read again.
    """

    def look(ref: LanceDatasetRef) -> Survey | None:
        cursor = cursors.get(ref.name, DatasetCursor())
        if cursor.version is None or cursor.problem is not None or not is_judged(cursor, ref):
            return None
        try:
            opened = store.open_store(ref)
            location = latest(opened)
            mark = mark_of(opened, location)
        except Exception:  # noqa: BLE001 - who looks at it in full says what is wrong
            return None
        at_rest = location.version == cursor.version and not has_other_bytes(cursor, location.version, mark)
        return Survey(location.version, mark=mark) if at_rest else None

    return _look_at_all(refs, look, deadline)


def survey_dataset(
    ref: LanceDatasetRef,
    cursor: DatasetCursor,
    store: LanceStoreResource,
    *,
    newest: int,
    grace: timedelta = timedelta(0),
    published: Published | None = None,
    full: bool = False,
    again: bool = False,
) -> Survey:
    """Survey one dataset; raises nothing. For the arguments see `survey_datasets`.

    The versions are listed once.
    """
    with listed_once():
        return _survey_dataset(
            ref, cursor, store, newest=newest, grace=grace, published=published, full=full, again=again
        )


def _survey_dataset(
    ref: LanceDatasetRef,
    cursor: DatasetCursor,
    store: LanceStoreResource,
    *,
    newest: int,
    grace: timedelta,
    published: Published | None,
    full: bool,
    again: bool,
) -> Survey:
    try:
        opened = store.open_store(ref)
        location = latest(opened)
        head, mark = location.version, mark_of(opened, location)
    except Exception as error:  # noqa: BLE001 - one dataset must not fail the tick of all others
        return Survey(None, error=error)
    # All versions up to the head were processed: an older newest event comes from a publisher that ignored
    # the order, or the events were wiped, and the page shows outdated values.
    heals = head == cursor.version and (published is None or published.version < head)
    # Recreated by runs, which published all their versions: the numbers are the same, the data are not.
    replaced = (
        head == cursor.version
        and published is not None
        and published.version == head
        and published.data_version not in (None, cursor.data_version)
    )
    changed = has_other_bytes(cursor, head, mark)
    judged = head == cursor.version and is_judged(cursor, ref)
    if judged and cursor.problem is None and not (heals or replaced or changed or full or again):
        return Survey(head, mark=mark)
    known = cursor.version or 0
    # A head below the processed one is another dataset at the same place.
    after = known if known <= head else 0
    if heals or replaced or changed or (head == cursor.version and not judged):
        after = head - 1
    of_another: Published | None = None
    events: list[VersionEvent] = []
    try:
        if is_of_another_dataset(opened, published) or (changed and _has_other_data(opened, published)):
            of_another, after = published, 0
        versions = existing_versions(opened)
        if cursor.version is None and published is None:
            newest = min(newest, _to_tell_apart(opened, versions, newest, grace))
        plan = plan_publication(versions, after, newest=newest)
        for event in build_version_events(ref, opened, plan, storage_options=store.options_of(ref)):
            events.append(event)  # noqa: PERF402 - those before an error count
        dataset = events[-1].dataset if events else store.open(ref)
    except Exception as error:  # noqa: BLE001 - see above
        return Survey(head, tuple(events), error=error, of_another=of_another, mark=mark)
    # Right after a commit the tick has more to do; the next full check covers what is left out then.
    outcomes = tuple(evaluate_checks(ref, dataset, max_files=None if full else _MAX_FILES))
    made = {outcome.name for outcome in outcomes if keys.NOT_EVALUATED not in outcome.metadata}
    complete = all(
        name in made or check.is_costly or not applies(check, dataset) for name, check in CHECKS.items()
    )
    return Survey(
        head,
        tuple(events),
        outcomes,
        of_another=of_another,
        checked_at=int(time.time()) if complete else None,
        mark=mark,
    )


def has_other_bytes(cursor: DatasetCursor, head: int, mark: str | None) -> bool:
    """Return whether the processed manifest was overwritten.

    Then the dataset was recreated with as many versions, or is damaged. An entry of an earlier release has no
    mark, and adopts the present one.
    """
    return head == cursor.version and None not in (mark, cursor.mark) and mark != cursor.mark


def is_judged(cursor: DatasetCursor, ref: LanceDatasetRef) -> bool:
    """Return whether the last checks used the present policy, as far as the entry records it."""
    return cursor.policy in (None, ref.policy_hash)


def _to_tell_apart(store: Store, versions: Sequence[int], most: int, grace: timedelta) -> int:
    """Return how many of the newest versions get their own events at the first survey of a dataset.

    Dagster shows events at their time of storing, so that separate events of the past would be one point in
    time, and stores them one by one: the first survey of a fleet has many.
    """
    if len(versions) == 1:
        return 1
    old = now_utc() - grace
    for count, version in enumerate(sorted(versions, reverse=True)[:most]):
        try:
            if read_summary(store, locate(store, version)).timestamp < old:
                return count
        except (FormatError, NotFoundError, UnsupportedError):
            continue
    return most


def _has_other_data(store: Store, published: Published | None) -> bool:
    """Return whether the version of the newest event has other data; for manifests without a transaction."""
    if published is None or published.data_version is None:
        return False
    return Dataset.open(store, published.version).data_version != published.data_version
