"""Place: where a job or a sensor is defined; names of jobs are unique there, and nowhere else.

Commands that a check or an alert names have the options that find this place from any folder.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

import dagster as dg

_LOADED = {
    "package_name": "--package-name",
    "module_name": "-m",
    "autoload_defs_module_name": "--autoload-defs-module-name",
    "python_file": "-f",
}
"""Options of Dagster's command line by what a code location is loaded from, its default name first."""


@dataclass(frozen=True, slots=True)
class CodePlace:
    """A repository of a code location.

    Attributes:
        location: Name of the code location.
        repository: Name of the repository in it.
        loaded: Options of Dagster's command line that load it: `-f /srv/shop/definitions.py -d /srv/shop`; ""
            for one that a server of its own has loaded.
        named: Options that find it in a workspace. By what it is loaded from where its name is the one that
            Dagster gives it: a backfill is looked for by that name.
    """

    location: str
    repository: str
    loaded: str = field(default="", compare=False)
    named: str = field(default="", compare=False)

    @classmethod
    def of_sensor(cls, context: dg.SensorEvaluationContext) -> "CodePlace | None":
        """Return the place of the sensor that is evaluated; None outside a daemon."""
        location, repository = context.code_location_origin, context.repository_name
        return None if location is None or repository is None else cls._of(location, repository)

    @classmethod
    def of_run(cls, run: dg.DagsterRun) -> "CodePlace | None":
        """Return the place of a run's job; None for one that no code location was asked for."""
        if run.remote_job_origin is None:
            return None
        origin = run.remote_job_origin.repository_origin
        return cls._of(origin.code_location_origin, origin.repository_name)

    @classmethod
    def _of(cls, origin: Any, repository: str) -> "CodePlace":
        """Return a place by its origin, which has no public type."""
        name, shown = origin.location_name, origin.get_display_metadata()
        found = {kind: str(shown[kind]) for kind in _LOADED if shown.get(kind)}
        if not found:
            return cls(name, repository, "", f"-l {quote(name)}")
        kind, source = next(iter(found.items()))
        folder, attribute = shown.get("working_directory"), shown.get("attribute")
        default = source
        if kind == "python_file":
            file = Path(folder or "", source)
            source, default = str(file), file.name
        options = {_LOADED[kind]: source, "-a": attribute, "-d": folder}
        loaded = " ".join(f"{option} {quote(value)}" for option, value in options.items() if value)
        default = f"{default}:{attribute}" if attribute else default
        return cls(name, repository, loaded, loaded if name == default else f"-l {quote(name)}")


def job_command(place: CodePlace | None, job: str, partitions: Sequence[str] = (), last: str = "") -> str:
    """Return the shell command that starts a job.

    Args:
        place: Where it is defined; None leaves that to the workspace.
        job: Its name.
        partitions: That it is to load, or the first of a range; none for a job without.
        last: Last partition of the range; "" without a range.
    """
    found = f" {place.named}" if place is not None and place.named else ""
    if not partitions:
        return f"dagster job launch{found} -j {job}"
    chosen = quote(",".join(partitions))
    options = f"--from {chosen} --to {quote(last)}" if last else f"--partitions {chosen}"
    return f"dagster job backfill{found} -j {job} {options} --noprompt"


def asset_command(place: CodePlace | None, assets: Sequence[dg.AssetKey], partition: str = "") -> str:
    """Return the shell command that materializes assets in a process of its own.

    Args:
        place: Where they are defined; None leaves that to the workspace.
        assets: The assets.
        partition: Their partition, or the first and the last of a range with "..." between; "" without.
    """
    found = f" {place.loaded}" if place is not None and place.loaded else ""
    selected = quote(",".join(key.to_user_string() for key in assets))
    option = "--partition-range" if "..." in partition else "--partition"
    chosen = f" {option} {quote(partition)}" if partition else ""
    return f"dagster asset materialize{found} --select {selected}{chosen}"
