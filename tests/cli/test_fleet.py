"""The `fleet` commands, as a person types them."""

import json
from datetime import datetime, timedelta

import pytest
from click.testing import CliRunner

from lance_ops.cli import main
from lance_ops.cli.fleet.work import _moment
from lance_ops.errors import InvalidArgumentError
from tests.support.fleets import write


@pytest.fixture
def lake(tmp_path, monkeypatch):
    for name, fragments in (("few", 1), ("many", 25)):
        write(tmp_path / "lake", f"{name}.lance", fragments)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, ["fleet", *arguments])
    assert done.exit_code == code, done.output
    return done.output


def run_json(*arguments: str, code: int = 0):
    done = CliRunner().invoke(main, ["fleet", *arguments, "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def set_mode(lake, mode: str) -> None:
    file = lake / "lance_fleet.yaml"
    file.write_text(file.read_text().replace("\nmode: observe", f"\nmode: {mode}"))


def test_three_commands_from_a_folder_to_a_report(lake):
    told = run("adopt", "lake")
    assert "2 datasets" in told
    assert "25 small fragments (limit 20)" in told
    assert "mode observe: nothing is changed" in told
    assert "2 datasets" in run("status")
    assert "1 due" in run("report", "-o", "out.html")
    assert "many.lance" in (lake / "out.html").read_text()


def test_autopilot_is_one_word_in_the_file(lake):
    run("adopt", "lake")
    assert "its mode is observe" in run("run")
    set_mode(lake, "auto")
    assert "1 of 1 due dataset done" in run("run")
    assert run_json("run")["datasets"] == 0
    assert run_json("status")["verdicts"] == {"healthy": 2}
    assert "estimates of compact" in run("forecast")


def test_a_plan_is_proposed_approved_and_run(lake):
    run("adopt", "lake")
    set_mode(lake, "propose")
    assert "many.lance" in run("plan", "-o", "plan.json")
    assert "waits for approval" in run("run", "--plan", "plan.json", code=1)
    assert "approved by ann" in run("plan", "--approve", "plan.json", "--by", "ann")
    assert run_json("run", "--plan", "plan.json")["done"] == 1


def test_every_command_speaks_json(lake):
    assert run_json("adopt", "lake")["datasets"] == 2
    assert run_json("lint")["ok"]
    assert run_json("lint", "--dataset", "few.lance")["dataset"]["max_versions"]["origin"].startswith(
        "class default, line"
    )
    assert run_json("status", "--cached")["datasets"] == 2
    assert run_json("plan")["items"][0]["dataset"] == "many.lance"
    assert run_json("forecast")["backlog_bytes"] > 0
    assert run_json("report")["datasets"] == 2
    assert run_json("run", "--budget", "1GB", "--until", "2h")["done"] == 0


def test_lint_names_file_and_line_of_every_problem(lake):
    run("adopt", "lake")
    file = lake / "lance_fleet.yaml"
    file.write_text(
        file.read_text().replace("max_versions: 100", "max_version: 100").replace("mode: observe", "mode: x")
    )
    told = run("lint", code=1)
    assert "lance_fleet.yaml:5: mode:" in told
    assert "is max_versions meant?" in told
    assert run_json("lint", code=1)["problems"][0]["line"] == 5
    assert "max_versions meant" in run("run", code=1)
    file.write_text("version: 1\nstores:\n\ts: lake\n")
    assert "lance_fleet.yaml:3: not valid YAML" in run("lint", code=1)


def test_a_secret_in_the_file_is_warned_of_and_not_shown(lake):
    (lake / "lance_fleet.yaml").write_text(
        "version: 1\nstores: {s: {root: lake, options: {secret_access_key: s3cr3t}}}\n"
    )
    told = run("lint")
    assert "secret_access_key is in plain text" in told
    assert "s3cr3t" not in told


def test_a_root_without_datasets_is_warned_of(lake):
    (lake / "lance_fleet.yaml").write_text("version: 1\nstores: {s: lakes}\n")
    assert "warning: store s: no dataset was found below" in run("status")


def test_no_file_says_how_to_make_one(lake):
    assert "adopt" in run("status", code=1)


@pytest.mark.parametrize(
    "arguments", [["run", "--budget", "much"], ["run", "--until", "soon"], ["status", "--shard", "x"]]
)
def test_options_that_make_no_sense_are_named(lake, arguments):
    run("adopt", "lake")
    assert "write for example" in run(*arguments, code=1)


def test_moments_as_people_say_them():
    now = datetime.fromisoformat("2026-11-23T22:00:00+01:00")
    assert _moment("06:00", now) == datetime.fromisoformat("2026-11-24T06:00:00+01:00")
    assert _moment("23:30", now) == datetime.fromisoformat("2026-11-23T23:30:00+01:00")
    assert _moment("2h", now) == now + timedelta(hours=2)
    assert _moment("2026-12-01T06:00:00+00:00", now).day == 1
    with pytest.raises(InvalidArgumentError):
        _moment("25:00", now)


@pytest.mark.parametrize("command", ["status", "run"])
def test_status_and_run_tell_what_the_rules_want_told_once(lake, command, caplog):
    policy = lake / "lance_fleet.yaml"
    run("adopt", "lake")
    policy.write_text(policy.read_text() + "alerts: [{to: log, kinds: [damaged]}]\n")
    write(lake / "lake", "bad.lance")
    next((lake / "lake" / "bad.lance" / "_versions").glob("*.manifest")).write_bytes(b"x" * 100)
    # A run names what is damaged, and fails.
    code = 1 if command == "run" else 0
    told = run(command, "--no-alerts", code=code)
    assert "bad.lance" in told
    assert "damaged" not in caplog.text
    for _ in range(2):
        run(command, code=code)
    assert caplog.text.count("bad.lance damaged") == 2  # in the title, and with the cause


def test_names_that_are_none_are_refused_with_those_that_are_there(lake):
    run("adopt", "lake")
    for command in ("plan", "run"):
        assert "few.lance" in run(command, "--only", "fewlance", code=1)
    assert "few.lance" in run("lint", "--dataset", "fewlance", code=1)
    assert CliRunner().invoke(main, ["fleet", "forecast", "--days", "-3"]).exit_code == 2


def test_adopt_writes_a_pattern_into_the_policy(lake):
    assert "--glob" in run("adopt", "lake", "--kind", "glob", code=1)
    assert run_json("adopt", "lake", "--kind", "glob", "--glob", "f*.lance")["datasets"] == 1
    assert "glob: f*.lance" in (lake / "lance_fleet.yaml").read_text()
    assert run_json("status")["datasets"] == 1


def test_a_damaged_ledger_is_told_from_a_damaged_dataset(lake):
    run("adopt", "lake")
    for manifest in (lake / "lake" / "_lance_ops_fleet" / "looks.lance" / "_versions").glob("*.manifest"):
        manifest.write_bytes(b"junk")
    for command in ("status", "run", "report", "forecast"):
        said = run(command, code=1)
        assert "the ledger of the fleet is damaged" in said
        assert "rm -r " in said
        assert "this loses" in said


def test_lint_refuses_alerts_that_nobody_can_be_told_of(lake, monkeypatch):
    run("adopt", "lake")
    monkeypatch.delenv("NO_SUCH_HOOK", raising=False)
    file = lake / "lance_fleet.yaml"
    begins = len(file.read_text().splitlines())
    file.write_text(file.read_text() + 'alerts:\n  - {to: teams}\n  - {to: slack, url: "${NO_SUCH_HOOK}"}\n')
    problems = run_json("lint", code=1)["problems"]
    assert [problem["line"] for problem in problems] == [begins + 2, begins + 3]
    monkeypatch.setenv("NO_SUCH_HOOK", "http://localhost/")
    assert run_json("lint", "--notifier", "teams")["ok"]
