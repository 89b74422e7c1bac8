"""Fleet run as a job: survey, plan, maintenance steps, and a summary.

Small datasets share a step, and with it two Spark jobs; each large one has its own step, so that the Gantt
chart shows where time is spent. A failure of one dataset does not affect others; the summary fails after all
others were maintained. A dataset is maintained by one run at a time, so steps may run concurrently.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
from pydantic import Field

from lance_ops.dagster import keys
from lance_ops.dagster.fleet.submitted_run import submitted_run
from lance_ops.dagster.jobs.operations import NamedJob
from lance_ops.dagster.jobs.run_report import shortened
from lance_ops.dagster.links import code_block
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.tables import plan_table
from lance_ops.dagster.version_event import Metadata, as_metadata
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.plan.model import FleetPlan
from lance_ops.fleet.plan.operation import PlanOptions, plan_fleet
from lance_ops.fleet.policy.model import FleetPolicy
from lance_ops.fleet.policy.quantities import parse_bytes
from lance_ops.fleet.run.operation import RunOptions, run_fleet
from lance_ops.fleet.run.submitted import answer_of
from lance_ops.fleet.survey.operation import Past, SurveyOptions, survey_fleet
from lance_ops.maintenance.progress import Progress, ProgressEvent
from lance_ops.maintenance.text import bytes_text, count_text, seconds_text

FLEET_JOB = "lance_fleet_run"
"""Name of the job, after a prefix."""

_MOST_STEPS = 50
_FAILED = "failed"
_NUMBERS = (
    "datasets",
    "operations",
    "bytes_moved",
    "bytes_freed",
    "scan_seconds_saved",
    "conflicts",
    "seconds",
    _FAILED,
)
"""Numbers in the answer of a run, see `answer_of`."""


class FleetRunConfig(dg.Config):
    """Options of a run of the fleet."""

    dry_run: bool = Field(default=False, description="Survey and plan without maintenance.")
    budget: str = Field(
        default="",
        description="Maximum bytes to read and write by the estimates, e.g. '20 GB'; default that of "
        "the policy.",
    )
    minutes: float | None = Field(
        default=None, description="Start nothing after this many minutes; default the windows of the policy."
    )
    datasets: list[str] | None = Field(default=None, description="Names of datasets; default all.")
    survey: bool = Field(
        default=True, description="Survey the datasets first; else use the newest survey of the ledger."
    )
    fail: bool = Field(default=True, description="The run fails when maintenance of a dataset failed.")


def build_fleet_job(policy: FleetPolicy, *, prefix: str = "") -> NamedJob:
    """Build the job `lance_fleet_run`.

    Args:
        policy: Of the fleet. Datasets of mode `auto` are maintained.
        prefix: Prefix of its name and of the required resource.
    """
    store_key = keys.prefixed(prefix, keys.STORE_RESOURCE)

    @dg.op(
        name=keys.prefixed(prefix, "plan_fleet"),
        out=dg.DynamicOut(dict, description="Datasets that a step maintains."),
        description="Survey the datasets, and choose due maintenance by priority within the budget.",
    )
    def plan_op(context: dg.OpExecutionContext, config: FleetRunConfig) -> Iterator[dg.DynamicOutput[Any]]:
        plan = _plan(context, policy, config)
        context.log.info(shortened(str(plan)))
        until = None
        if config.minutes is not None:
            until = (datetime.now(UTC) + timedelta(minutes=config.minutes)).isoformat()
        shares = [] if config.dry_run else shares_of(plan)
        described = _plan_metadata(plan, dry_run=config.dry_run)
        if not shares:
            context.log.info("nothing to maintain" if not config.dry_run else "a dry run")
        for name, datasets in shares:
            value = {
                "datasets": list(datasets),
                "until": until,
                "bytes": _bytes_of(plan, datasets) if config.budget else None,
                "fail": config.fail,
            }
            yield dg.DynamicOutput(value, mapping_key=name, metadata=described)

    @dg.op(
        name=keys.prefixed(prefix, "maintain"),
        description="Compact, index and clean up some datasets, by the policy.",
        required_resource_keys={store_key},
    )
    def maintain_op(context: dg.OpExecutionContext, share: dict[str, Any]) -> dict[str, Any]:
        store: LanceStoreResource = getattr(context.resources, store_key)
        until = share["until"]
        options = RunOptions(
            bytes=share["bytes"],
            only=frozenset(share["datasets"]),
            until=None if until is None else datetime.fromisoformat(until),
            survey=None,
        )
        if store.submits:
            told = submitted_run(context, store, policy, options, _progress(context))
        else:
            told = answer_of(
                run_fleet(policy, options, runner=store.build_runner(), progress=_progress(context))
            )
        for dataset, state, why in told["why"]:
            context.log.warning("%s: %s: %s", dataset, state, why)
        context.add_output_metadata(_run_metadata(told))
        return {name: told[name] for name in _NUMBERS} | {"fail": share["fail"]}

    @dg.op(name=keys.prefixed(prefix, "summarise_fleet"), description="Result of the run.")
    def summarise_op(context: dg.OpExecutionContext, shares: list[dict[str, Any]]) -> None:
        summary = summarise(shares)
        context.log.info(str(summary[keys.SUMMARY]))
        context.add_output_metadata(as_metadata(summary))
        failed = [name for share in shares for name in share[_FAILED]]
        if failed and any(share["fail"] for share in shares):
            raise dg.Failure(
                f"maintenance failed for {count_text(len(failed), 'dataset')}: {', '.join(failed[:10])}",
                metadata=as_metadata(summary),
                allow_retries=False,
            )

    @dg.job(
        name=keys.prefixed(prefix, FLEET_JOB),
        description=f"Run due maintenance in the fleet of {policy.source or policy.stores[0].root}.",
    )
    def fleet_job() -> None:
        summarise_op(plan_op().map(maintain_op).collect())

    return fleet_job


def shares_of(plan: FleetPlan) -> list[tuple[str, tuple[str, ...]]]:
    """Return the steps of a plan as names of datasets: overdue large ones, all small ones, the others.

    Large ones beyond fifty share a step.
    """
    large = [item for item in plan.items if item.large]
    own = large[:_MOST_STEPS]
    rest = tuple(item.dataset for item in [*large[_MOST_STEPS:], *(i for i in plan.items if not i.large)])
    first = [item for item in own if item.verdict == "overdue"]
    shares: list[tuple[str, tuple[str, ...]]] = [
        (f"large_{number}", (item.dataset,)) for number, item in enumerate(first)
    ]
    if rest:
        shares.append(("small", rest))
    others = [item for item in own if item not in first]
    shares += [(f"large_{number + len(first)}", (item.dataset,)) for number, item in enumerate(others)]
    return shares


def _bytes_of(plan: FleetPlan, datasets: Sequence[str]) -> int:
    """Return the maximum bytes of a step, so that all steps together stay within the budget of the run."""
    return sum(item.bytes for item in plan.items if item.dataset in datasets)


def summarise(shares: Sequence[dict[str, Any]]) -> dict[str, object]:
    """Return the totals of all steps."""
    numbers = ("datasets", "operations", "bytes_moved", "bytes_freed", "scan_seconds_saved", "conflicts")
    sums: dict[str, Any] = {
        f"{keys.NAMESPACE}{name}": sum(share[name] for share in shares) for name in numbers
    }
    failed = sum(len(share[_FAILED]) for share in shares)
    text = (
        f"{count_text(sum(share['datasets'] for share in shares), 'dataset')} maintained, "
        f"{bytes_text(sums['lance/bytes_moved'])} moved, {bytes_text(sums['lance/bytes_freed'])} freed, "
        f"scans {seconds_text(sums['lance/scan_seconds_saved'])} shorter, {failed:,} failed"
    )
    return {**sums, f"{keys.NAMESPACE}{_FAILED}": failed, keys.SUMMARY: text}


def _plan(context: dg.OpExecutionContext, policy: FleetPolicy, config: FleetRunConfig) -> FleetPlan:
    now = datetime.now(UTC)
    ledger = FleetLedger.of(policy)
    if config.survey:
        survey = survey_fleet(policy, SurveyOptions(), ledger=ledger, progress=_progress(context), now=now)
        for error in survey.discovery.errors:
            context.log.warning(error)
    past = Past.read(ledger, now)
    known = past.latest if not config.survey else survey.known
    return plan_fleet(
        policy,
        known.values(),
        past.operations,
        now=now,
        options=PlanOptions(
            bytes=parse_bytes(config.budget) if config.budget else None,
            only=None if config.datasets is None else frozenset(config.datasets),
        ),
    )


def _plan_metadata(plan: FleetPlan, *, dry_run: bool) -> Metadata:
    return as_metadata(
        {
            keys.DRY_RUN: dry_run,
            keys.SUMMARY: plan.summary(),
            keys.PLAN_TABLE: plan_table(plan),
            keys.PLAN: dg.MetadataValue.md(code_block(shortened(str(plan)))),
            "lance/planned_datasets": len(plan.items),
            "lance/planned_seconds": plan.seconds,
            "lance/planned_bytes": plan.bytes,
        }
    )


def _run_metadata(told: Mapping[str, Any]) -> Metadata:
    return as_metadata(
        {
            keys.SUMMARY: told["summary"],
            "lance/outcomes": dg.MetadataValue.md(code_block(shortened(told["text"]))),
            **{f"{keys.NAMESPACE}{name}": told[name] for name in _NUMBERS},
        }
    )


def _progress(context: dg.OpExecutionContext) -> Progress:
    def tell(event: ProgressEvent) -> None:
        if event.total and event.done == event.total:
            context.log.info("%s: %s (%d)", event.operation, event.message, event.total)

    return tell
