"""Fleet run as a job: a look at all datasets, a plan, steps that maintain what is due, and a summary.

Small datasets share a step, and with it two Spark jobs; each large one has a step of its own, so that the
Gantt chart shows where time goes. What goes wrong with a dataset stays with it; the summary fails when
something did, after all others were maintained. A dataset is maintained by one run at a time, whoever started
it, so steps may run side by side.
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
"""Name of the job, behind a prefix."""

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
"""Of what a run answers, see `answer_of`."""


class FleetRunConfig(dg.Config):
    """What a run of the fleet may do."""

    dry_run: bool = Field(default=False, description="Look and plan, and maintain nothing.")
    budget: str = Field(
        default="",
        description="What it reads and writes at most, by the estimates, e.g. '20 GB'; the policy's without.",
    )
    minutes: float | None = Field(
        default=None, description="It begins nothing after so many minutes; the policy's windows without."
    )
    datasets: list[str] | None = Field(default=None, description="Names of datasets; all by default.")
    survey: bool = Field(
        default=True, description="Look at the datasets first; else the ledger's newest looks count."
    )
    fail: bool = Field(default=True, description="The run fails when something went wrong with a dataset.")


def build_fleet_job(policy: FleetPolicy, *, prefix: str = "") -> NamedJob:
    """The job `lance_fleet_run`.

    Args:
        policy: Of the fleet. Datasets of mode `auto` are maintained.
        prefix: Before its name, and of the resource that it wants.
    """
    store_key = keys.prefixed(prefix, keys.STORE_RESOURCE)

    @dg.op(
        name=keys.prefixed(prefix, "plan_fleet"),
        out=dg.DynamicOut(dict, description="Datasets that a step maintains."),
        description="Look at the datasets, and take the best of what is due within the budget.",
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
        description="Compact, index and clean up some datasets, as the policy says.",
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

    @dg.op(name=keys.prefixed(prefix, "summarise_fleet"), description="What the run brought.")
    def summarise_op(context: dg.OpExecutionContext, shares: list[dict[str, Any]]) -> None:
        summary = summarise(shares)
        context.log.info(str(summary[keys.SUMMARY]))
        context.add_output_metadata(as_metadata(summary))
        failed = [name for share in shares for name in share[_FAILED]]
        if failed and any(share["fail"] for share in shares):
            raise dg.Failure(
                f"{count_text(len(failed), 'dataset')} could not be maintained: {', '.join(failed[:10])}",
                metadata=as_metadata(summary),
                allow_retries=False,
            )

    @dg.job(
        name=keys.prefixed(prefix, FLEET_JOB),
        description=f"Maintain what is due in the fleet of {policy.source or policy.stores[0].root}.",
    )
    def fleet_job() -> None:
        summarise_op(plan_op().map(maintain_op).collect())

    return fleet_job


def shares_of(plan: FleetPlan) -> list[tuple[str, tuple[str, ...]]]:
    """The steps of a plan, with the names of their datasets: overdue large ones, all small ones, the others.

    Beyond fifty large ones, the rest share a step.
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
    """What a step may read and write, so that all together keep to the budget of the run."""
    return sum(item.bytes for item in plan.items if item.dataset in datasets)


def summarise(shares: Sequence[dict[str, Any]]) -> dict[str, object]:
    """The numbers of all steps together."""
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
