"""A shorter history that breaks the same promise, and its story as a table."""

from collections.abc import Iterator
from dataclasses import replace

from tests.simulator.history import History, Plan, Script, UseWorld, Violation, run_plan
from tests.simulator.world import Choices, Event

_TRIES = 400


def failure_of(plan: Plan, use: UseWorld, choices: Choices | None = None) -> tuple[str, str, History | None]:
    """Run a plan.

    Returns:
        The kind of its failure ("" for none), what it says, and the history.
    """
    kept: list[History] = []
    try:
        run_plan(plan, use, choices, keep=kept.append)
    except Violation as error:
        return error.kind, str(error), kept[0]
    except Exception as error:  # noqa: BLE001 - any failure of the product is a finding
        return type(error).__name__, f"{type(error).__name__}: {error}", kept[0]
    return "", "", kept[0]


def shrink(plan: Plan, use: UseWorld) -> tuple[Plan, Choices, str, History]:
    """Return the shortest history found that fails as the plan does.

    Raises:
        ValueError: The plan does not fail.
    """
    kind, what, history = failure_of(plan, use)
    if not kind or history is None:
        raise ValueError(f"seed {plan.seed} does not fail")
    best = (plan, history.choices.copy(), what, history)
    tries = 0
    progress = True
    while progress and tries < _TRIES:
        progress = False
        for shorter, choices in _shorter(best[0], best[1]):
            tries += 1
            found, what, history = failure_of(shorter, use, choices.copy())
            if found == kind and history is not None:
                best, progress = (shorter, choices, what, history), True
                break
            if tries >= _TRIES:
                break
    return best


def _shorter(plan: Plan, choices: Choices) -> Iterator[tuple[Plan, Choices]]:
    for number, script in enumerate(plan.scripts):
        for place in range(len(script.works)):
            works = script.works[:place] + script.works[place + 1 :]
            scripts = list(plan.scripts)
            scripts[number] = replace(script, works=works)
            yield replace(plan, scripts=tuple(scripts)), choices
    for number, script in enumerate(plan.scripts):
        if script.offset or script.revives:
            scripts = list(plan.scripts)
            scripts[number] = Script(script.works)
            yield replace(plan, scripts=tuple(scripts)), choices
    if plan.remote:
        yield replace(plan, remote=False), choices
    if plan.start:
        yield replace(plan, start=plan.start & (plan.start - 1)), choices
    for place in sorted(choices.faults):
        yield plan, Choices(choices.switches, {k: v for k, v in choices.faults.items() if k != place})
    # Half of the switches at once, then one at a time.
    switches = sorted(choices.switches)
    for part in (switches[len(switches) // 2 :], switches[: len(switches) // 2]):
        if part:
            kept = {k: v for k, v in choices.switches.items() if k not in part}
            yield plan, Choices(kept, choices.faults)
    for place in switches:
        yield plan, Choices({k: v for k, v in choices.switches.items() if k != place}, choices.faults)


_SHOWN = frozenset({"put", "close", "delete", "copy"})


def story_table(events: list[Event]) -> str:
    """Format a history: a column for each process, a line for each thing that changes something."""
    processes = sorted({event.process for event in events if event.process >= 0})
    lines = [["time", *(f"process {number}" for number in processes)]]
    for event in _told(events):
        text = " ".join(part for part in (event.what, _short(event.path), _mark(event)) if part)
        cells = [text if event.process == number else "" for number in processes]
        if event.process < 0:
            cells[0] = f"({text})"
        lines.append([f"{event.at:.2f}", *cells])
    widths = [min(62, max(len(line[column]) for line in lines)) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell[:width].ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _mark(event: Event) -> str:
    if not event.note:
        return ""
    return event.note if event.what in ("begins", "done", "failed", "unknown", "died") else f"[{event.note}]"


def _told(events: list[Event]) -> Iterator[Event]:
    before = None
    for event in events:
        reads = event.what in ("read", "read_ranges", "read_tail", "size", "exists", "list", "list_dirs")
        # A read is told where another process ran before it: it shows what was seen between the changes.
        if not reads or event.note or (event.process != before and event.path.startswith("_versions")):
            yield event
        before = event.process


def _short(path: str) -> str:
    folder, _, name = path.rpartition("/")
    if name.endswith(".manifest") and name[:-9].isdecimal():
        return f"version {2**64 - 1 - int(name[:-9])}" if len(name) == 29 else name
    return f"{folder}/{name[:8]}…{name[-9:]}" if len(name) > 20 else path
