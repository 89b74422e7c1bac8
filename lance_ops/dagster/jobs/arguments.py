"""Arguments of operations from the config of their jobs, here or in a submitted program."""

from dataclasses import asdict
from enum import Enum
from typing import Any

from lance_ops.dagster.jobs.call import Call
from lance_ops.dagster.jobs.config import (
    AddColumnsConfig,
    AlterColumnsConfig,
    AppendConfig,
    CleanupConfig,
    CompactConfig,
    CompactWalConfig,
    DeleteConfig,
    IndexConfig,
    MaintainConfig,
    UpdateConfig,
    UpsertConfig,
)
from lance_ops.dagster.jobs.run_report import build_progress
from lance_ops.dagster.lineage import noted_expressions
from lance_ops.maintenance.cleanup.operation import cleanup
from lance_ops.maintenance.compact.options import CompactionChoices


def append_rows(call: Call, config: AppendConfig) -> object:
    """Return the arguments of an append; see `AppendConfig`."""
    arguments = {
        **_input_of(config),
        "fill_missing": config.fill_missing,
        "max_rows_per_file": config.max_rows_per_file,
    }
    return call.perform("append", arguments, job_key=_key_of_chain(call, config.rerun_token))


def upsert_rows(call: Call, config: UpsertConfig) -> object:
    """Return the arguments of an upsert; see `UpsertConfig`."""
    arguments = {
        **_input_of(config),
        "on": config.on or None,
        "when_matched": config.when_matched.value,
        "condition": config.condition,
        "when_not_matched": "insert_all" if config.insert_new else None,
        "when_not_matched_by_source": config.when_not_matched_by_source,
        "dry_run": config.dry_run,
    }
    return call.perform("merge_insert", arguments, job_key=_key_of_chain(call, config.rerun_token))


def _input_of(config: AppendConfig | UpsertConfig) -> dict[str, object]:
    given = {"read_options": config.read_options, "query": config.query, "database": config.database}
    return {"paths": config.paths, **{name: value for name, value in given.items() if value}}


def update_rows(call: Call, config: UpdateConfig) -> object:
    """Return the arguments of an update; see `UpdateConfig`."""
    arguments = {"values": config.values, "where": config.where, "dry_run": config.dry_run}
    return call.perform("update", arguments, job_key=_key_of_chain(call, config.rerun_token))


def delete_rows(call: Call, config: DeleteConfig) -> object:
    """Return the arguments of a delete; see `DeleteConfig`."""
    arguments = {
        "predicate": config.predicate,
        "dry_run": config.dry_run,
        "max_fraction": config.max_fraction,
    }
    return call.perform("delete", arguments)


def add_columns(call: Call, config: AddColumnsConfig) -> object:
    """Return the arguments of an addition of columns; see `AddColumnsConfig`."""
    arguments = {"values": config.values, "function": config.function, "dry_run": config.dry_run}
    return call.perform(
        "add_columns",
        arguments,
        job_key=_key_of_chain(call, config.rerun_token),
        notes=noted_expressions(config.values),
    )


def alter_columns(call: Call, config: AlterColumnsConfig) -> object:
    """Return the arguments of an alteration of columns; see `AlterColumnsConfig`."""
    alterations = [item.model_dump(exclude_none=True) for item in config.alterations]
    return call.perform("alter_columns", {"alterations": alterations, "dry_run": config.dry_run})


def _key_of_chain(call: Call, token: str) -> str:
    """Return the first run's id, so that re-executing a run that ended after its commit adds nothing.

    Interrupted work is resumed.
    """
    return f"{call.notes.job}|{call.notes.root_run_id}|{token}"


def compact(call: Call, config: CompactConfig) -> object:
    """Return the arguments of a compaction; see `CompactConfig`."""
    asked: dict[str, Any] = {}
    for name in (*CompactionChoices.__annotations__, "budget_money"):
        value = getattr(config, name, None)
        if value is not None:
            asked[name] = value.value if isinstance(value, Enum) else value
    return call.perform(
        "compact", {**call.ref.policy.compaction_options(), **asked, "dry_run": config.dry_run}
    )


def maintain(call: Call, config: MaintainConfig) -> object:
    """Run due maintenance; see `MaintainConfig`."""
    return call.perform(
        "maintain",
        {
            "policy": call.ref.policy.values(),
            "budget_bytes": config.budget_bytes,
            "budget_seconds": config.budget_seconds,
            "dry_run": config.dry_run,
        },
    )


def index(call: Call, config: IndexConfig) -> object:
    """Build or refresh indices; see `IndexConfig`."""
    policy = call.ref.policy
    refresh = {
        "rebuild": config.rebuild,
        "merge_segments": config.merge_segments,
        "most_segments": policy.most_segments,
        "limits": asdict(policy.wear_limits),
    }
    if config.indices:
        wanted = [
            {"column": item.column, "kind": item.kind, "name": item.name, "parameters": item.parameters}
            for item in config.indices
        ]
        arguments = {
            "wanted": wanted,
            "replace": config.replace,
            "dry_run": config.dry_run,
            "refresh": refresh,
        }
        return call.perform("build_indices", arguments)
    if config.column is None:
        names = None if config.name is None else [config.name]
        return call.perform("optimize_indices", {"names": names, "dry_run": config.dry_run, **refresh})
    return call.perform(
        "create_index",
        {
            "column": config.column,
            "kind": config.kind,
            "name": config.name,
            "replace": config.replace,
            "parameters": config.parameters,
            "dry_run": config.dry_run,
        },
    )


def compact_wal(call: Call, config: CompactWalConfig) -> object:
    """Return the arguments of a MemWAL compaction; see `CompactWalConfig`."""
    asked = {} if config.max_bytes is None else {"max_bytes": config.max_bytes}
    return call.perform("compact_wal", {**asked, "remove": config.remove, "dry_run": config.dry_run})


def clean_up(call: Call, config: CleanupConfig) -> object:
    """Return the arguments of a cleanup; see `CleanupConfig`."""
    return cleanup(
        call.ref.uri,
        older_than=config.age(call.ref),
        retain_versions=config.retained(call.ref),
        delete_unverified=config.delete_unverified,
        grace=call.ref.policy.cleanup_grace,
        dry_run=config.dry_run,
        progress=build_progress(call.context, call.ref),
        storage_options=call.store.options_of(call.ref),
    )
