"""Commands on alerts: send a test message to each recipient."""

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lance_ops.cli.output import fail, print_result
from lance_ops.errors import AlertNotDeliveredError, InvalidArgumentError, LanceOpsError

if TYPE_CHECKING:
    from lance_ops.alerts.rule import AlertRule


@click.group("alerts", short_help="Test the recipients of alerts.")
def alerts_command() -> None:
    """Alerts of fleets and of the Dagster plugin."""


@alerts_command.command("test", short_help="Send a test message to each recipient.")
@click.argument("target")
@click.option(
    "--to", "only", metavar="NAME", help="Send only to the recipients with this name (`to` of a rule)."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for machines.")
def _test_command(target: str, only: str | None, as_json: bool) -> None:
    """Send a test message to each recipient of TARGET and report which ones received it.

    TARGET is the policy file of a fleet (its rules), MODULE:NAME or FILE.py:NAME of a notifier or of a
    mapping of notifiers, or the http(s) URL of a webhook. In PagerDuty, the incident of the test is resolved
    again. Exit code 1 when a message was not delivered.
    """
    from lance_ops.alerts.trial import try_notifier, try_rule

    sent: list[dict[str, str]] = []
    try:
        recipients = _recipients(target)
        chosen = [item for item in recipients if only is None or item[0] == only]
        if not chosen:
            names = ", ".join(dict.fromkeys(name for name, _ in recipients)) or "no recipient"
            raise InvalidArgumentError(
                f"{target} has no recipient {only!r}", field="--to", hint=f"it has {names}"
            )
        for name, recipient in chosen:
            error = ""
            try:
                remark = try_notifier(recipient) if hasattr(recipient, "notify") else try_rule(recipient)
            except AlertNotDeliveredError as failure:
                remark, error = "", str(failure)
            sent.append({"to": name, "error": error, "remark": remark})
    except LanceOpsError as error:
        fail(error, as_json=as_json)
    ok = not any(item["error"] for item in sent)
    if as_json:
        print_result({"operation": "alerts test", "ok": ok, "recipients": sent}, as_json=True)
    else:
        for item in sent:
            said = f"not delivered: {item['error']}" if item["error"] else item["remark"] or "delivered"
            click.echo(f"{item['to']}: {said}", err=bool(item["error"]))
    if not ok:
        raise click.exceptions.Exit(1)


def _recipients(target: str) -> list[tuple[str, Any]]:
    """Return recipients by name: rules of a policy, or notifiers."""
    from lance_ops.alerts.notifier import WebhookNotifier, check_notifier
    from lance_ops.alerts.post import host_of

    if target.startswith(("http://", "https://")):
        return [(host_of(target) or "webhook", WebhookNotifier(target))]
    if target.endswith((".yaml", ".yml")):
        return [(rule.to, rule) for rule in _rules(target)]
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise InvalidArgumentError(
            f"{target!r} is not a recipient of alerts",
            field="TARGET",
            hint="expected a policy file (.yaml), MODULE:NAME of a notifier, or the URL of a webhook",
        )
    found = _loaded(place, name)
    named = dict(found) if isinstance(found, dict) else {name: found}
    for key, item in named.items():
        check_notifier(item, str(key))
    return [(str(key), item) for key, item in named.items()]


def _rules(path: str) -> "tuple[AlertRule, ...]":
    from lance_ops.fleet.policy.load import load_policy

    return load_policy(path).alerts


def _loaded(place: str, name: str) -> Any:
    """Return the object with a name in a module or a Python file."""
    path = Path(place)
    sys.path.insert(0, str(path.parent.resolve() if path.suffix == ".py" else Path.cwd()))
    try:
        module = importlib.import_module(path.stem if path.suffix == ".py" else place)
    except ImportError as error:
        raise InvalidArgumentError(f"cannot import {place}: {error}", field="TARGET") from error
    finally:
        del sys.path[0]
    if not hasattr(module, name):
        raise InvalidArgumentError(f"{place} has no {name!r}", field="TARGET")
    return getattr(module, name)
