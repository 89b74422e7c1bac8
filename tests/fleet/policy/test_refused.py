"""What makes no sense in a policy file is refused, with its line."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest

from lance_ops.errors import PolicyError
from lance_ops.fleet.policy.load import parse_policy
from lance_ops.fleet.policy.windows import Blackout, Window, open_until

BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    "line",
    [
        "  t: {root: 's3://k:hunter2@b/x'}",
        "windows: [{days: mon, hours: 22:75-06}]",
        "  t: '~no-such-user/x'",
        f"budget: {{bytes_per_hour: {'9' * 400}GB}}",
        "budget: {runs: 0}",
        "budget: {requests_per_second: 0}",
        "classes: {default: {ttl: keep where ts > now - 9999999d}}",
        "classes: {default: {older_than: 999999d}}",
        "blackouts: [{from: 2026-13-01, to: 2026-12-24}]",
        "mode: !!bool auto",
        "blackouts: [{from: !!timestamp later}]",
        f"budget: {{runs: 0x{'f' * 8000}}}",
        "mode: a\x00b",
        "classes: {default: {ttl_max_fraction: '%'}}",
        "x: &a [*a]",
        "x: &a {b: *a}",
    ],
)
def test_it_is_refused_with_its_line(line):
    with pytest.raises(PolicyError) as caught:
        parse_policy(f"version: 1\nstores:\n  s: {{root: lake}}\n{line}\n")
    assert {problem.line for problem in caught.value.problems} == {4}
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["blackouts: [{from: null}]"], ["from: must be a day"]),
        (["blackouts: [{to: 2026-12-24}]"], ["has from and to, or days and hours"]),
        (["budget: {runs: null}"], ["must be a whole number"]),
        (["classes: {hot: {compact: 'off'}}"], ["compact: must be on or off, got 'off'"]),
        (["classes: {hot: {target_rows: true}}"], ["must be a whole number, got True"]),
        (
            ["budget: {per_store: {s: {run: 1}}}"],
            ["budget.per_store.s.run: unknown key 'run'; is runs meant"],
        ),
        (["assign: [{class_name: hot}]"], ["is class meant?"]),
        (["windows: [{zone: UTC, timezone: Mars}]"], ["unknown key 'zone'", "unknown time zone 'Mars'"]),
        # What a wrong value would have stood for is no second problem.
        (["stores: {t: 5}", "discover: [{store: t}]"], ["stores.t: must be a table"]),
        (["alerts: [{to: slack, url: 5}]"], ["alerts[0].url: must be a string"]),
    ],
)
def test_what_is_wrong_is_told_once_and_what_to_write(lines, said):
    head = [] if lines[0].startswith("stores") else ["stores: {s: lake}"]
    with pytest.raises(PolicyError) as caught:
        parse_policy("\n".join(["version: 1", *head, *lines]))
    assert len(caught.value.problems) == len(said)
    for part in said:
        assert part in str(caught.value)


def test_no_value_that_may_be_secret_is_repeated():
    text = "version: 1\nstores:\n  s: {root: lake, options: hunter2}\nalerts: [hunter2]\n"
    with pytest.raises(PolicyError) as caught:
        parse_policy(text)
    assert [problem.line for problem in caught.value.problems] == [3, 4]
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "stores", ["[{root: lake, options: {k: hunter2}}]", "s3://k:hunter2@b", "{s: lake}\nledger: [hunter2]"]
)
def test_no_secret_of_a_value_of_the_wrong_form_is_repeated(stores):
    with pytest.raises(PolicyError, match="must be a table") as caught:
        parse_policy(f"version: 1\nstores: {stores}\n")
    assert "hunter2" not in str(caught.value)


def test_a_file_without_a_version_is_refused():
    with pytest.raises(PolicyError, match="line 1: version: must be 1"):
        parse_policy("stores: {s: lake}\n")


def test_the_same_value_in_two_places_is_fine():
    text = "version: 1\nstores: {s: lake}\nclasses:\n  a: &a {max_versions: 3}\n  b: *a\n"
    assert len(parse_policy(text).classes) == 2


@pytest.mark.parametrize("zone", [UTC, ZoneInfo(BERLIN)])
@pytest.mark.parametrize(
    ("utc", "closed"),
    [("00:15", True), ("01:15", True), ("01:29", True), ("01:31", False), ("02:05", False)],
)
def test_a_blackout_holds_both_times_that_the_clock_shows_its_end(zone, utc, closed):
    at = datetime.fromisoformat(f"2026-10-25T{utc}+00:00").astimezone(zone)
    assert (open_until(at, [], [Window("all", "01-02:30", BERLIN)]) is None) is closed


def test_a_blackout_that_ends_in_an_hour_that_is_left_out_holds_until_the_clock_is_past_it():
    at = datetime(2026, 3, 29, 1, 15, tzinfo=UTC)
    assert open_until(at, [], [Window("all", "01-02:30", BERLIN)]) is None
    assert open_until(at, [], [Blackout(date(2026, 3, 29), date(2026, 3, 29), BERLIN)]) is None


@pytest.mark.parametrize("wide", [2, 9])
def test_aliases_that_multiply_are_refused_at_once(wide):
    lines = ["version: 1", f"a0: &a0 [{', '.join('x' * wide)}]"]
    depth = 9 if wide == 9 else 40
    for at in range(1, depth):
        lines.append(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * wide)}]")
    with pytest.raises(PolicyError, match="expand to more than 100,000 values"):
        parse_policy("\n".join(lines))


def test_aliases_that_repeat_a_value_are_taken():
    text = "version: 1\nstores: {s: /lake}\nclasses:\n  default: &base {older_than: 3d}\n  hot: *base\n"
    assert parse_policy(text).store("s").root == "/lake"


@pytest.mark.parametrize("sign", ["[", "{a: ", "- "])
def test_a_policy_that_is_nested_too_deeply_is_refused(sign):
    with pytest.raises(PolicyError):
        parse_policy("version: 1\nx: " + sign * 5000 if sign != "- " else sign * 5000)
