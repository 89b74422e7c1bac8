"""Adopting a store: find its datasets, measure them, and write a policy that changes nothing yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from lance_ops.errors import DatasetExistsError, InvalidArgumentError
from lance_ops.fleet.discover.folders import list_folders
from lance_ops.fleet.discover.namespace import MANIFEST
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.ledger.rows import Look
from lance_ops.fleet.policy.load import parse_policy
from lance_ops.fleet.policy.model import FleetPolicy
from lance_ops.fleet.stores.opened import FleetStores
from lance_ops.fleet.survey.operation import Survey, SurveyOptions, survey_fleet
from lance_ops.maintenance.progress import Progress
from lance_ops.storage import open_store
from lance_ops.storage.options import is_secret
from lance_ops.storage.paths import parse_location

_TEXT = """\
# Policy of a fleet of Lance datasets. `lance-ops fleet lint` checks it, docs/fleet.md explains every field.
version: 1

# observe: look, and change nothing.  propose: a person approves each plan.  auto: maintain what is due.
mode: observe

stores:
  {store}:
    root: {root}
{options}
discover:
  - {{store: {store}, {rule}}}

# What the fleet knows is kept here, in Lance datasets.
ledger:
  path: {ledger}
  keep: 90d

classes:
  default:
    max_small_fragments: 20     # compact when there are more
    max_deleted_ratio: 10%      # or when a greater share of rows is deleted
    min_index_coverage: 95%     # refresh indices that cover less
    max_versions: 100           # clean up when there are more
    older_than: 14d             # versions younger than this stay
    retain_versions: 10         # and so many in any case

# The first assignment that matches decides.
assign:
  - {{match: "*", class: default}}

# windows: [{{days: mon-fri, hours: 22-06, timezone: Europe/Berlin}}]
# budget: {{bytes_per_hour: 500GB, requests_per_second: 200}}
"""


@dataclass(frozen=True, slots=True)
class Adoption:
    """What was found.

    Attributes:
        policy: In observe mode.
        text: Of its file.
        survey: Of its datasets.
        variables: Of the environment, that the file refers to for secrets.
    """

    policy: FleetPolicy
    text: str
    survey: Survey
    variables: tuple[str, ...]

    def worst(self, count: int = 20) -> list[Look]:
        """The datasets that need it most."""
        return worst(list(self.survey.known.values()), count)


def adopt_fleet(
    root: str,
    file: Path,
    *,
    options: Mapping[str, str] | None = None,
    ledger: str | None = None,
    kind: str | None = None,
    glob: str | None = None,
    replace: bool = False,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Adoption:
    """Find and measure the datasets below a root, and write a policy file in observe mode.

    Args:
        root: Folder or URI.
        file: Where to write the policy.
        options: For the store. The file names variables of the environment for those that are secrets.
        ledger: Folder or URI of the ledger; `_lance_ops_fleet` below the root when None.
        kind: How datasets are looked for, see `DiscoverRule`; a namespace when there is one, else folders.
        glob: Pattern of the paths of datasets below the root, instead of a kind.
        replace: Overwrite the file.
        seconds: Time for looking.
        progress: Receives events.

    Raises:
        DatasetExistsError: The file is there.
        InvalidArgumentError: There is no dataset below the root, or kind and pattern do not fit together.
        StorageError: The store fails.
    """
    if file.exists() and not replace:
        raise DatasetExistsError(
            f"{file} is there already", path=str(file), hint="give another --policy, or --replace"
        )
    if glob is not None and kind not in (None, "glob"):
        raise InvalidArgumentError(f"a pattern goes with no kind {kind!r}", field="glob")
    if kind == "glob" and glob is None:
        raise InvalidArgumentError(
            "the kind 'glob' needs a pattern", field="glob", hint="give --glob too, such as '**/*.lance'"
        )
    location = parse_location(root)
    opened = open_store(location.uri, options)
    if kind is None:
        kind = "namespace" if MANIFEST in list_folders(opened, "") else "folder"
    name = _name(location.uri)
    written, variables = _options(name, options or {})
    text = _TEXT.format(
        store=name,
        root=_quoted(location.uri),
        options=written,
        rule=f"kind: {kind}" if glob is None else f"glob: {_quoted(glob)}",
        ledger=_quoted(ledger or f"{location.uri}/_lance_ops_fleet"),
    )
    policy = parse_policy(text, source=str(file))
    stores = FleetStores(policy)
    # The secrets are not in the environment yet.
    stores.use(name, opened)
    found = FleetLedger(open_store(policy.ledger_uri, options if ledger is None else None), policy.keep)
    survey = survey_fleet(
        policy,
        SurveyOptions(seconds=seconds, if_changed=False),
        ledger=found,
        stores=stores,
        progress=progress,
    )
    if not survey.known and not survey.left:
        said = f": {survey.discovery.errors[0]}" if survey.discovery.errors else ""
        raise InvalidArgumentError(
            f"no dataset was found below {location.uri}{said}",
            path=location.uri,
            hint="give the folder that datasets lie in, --kind or --glob",
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return Adoption(policy, text, survey, variables)


def worst(looks: Sequence[Look], count: int) -> list[Look]:
    """The datasets that need it most: by verdict, then by what maintenance gains."""
    order = {"damaged": 0, "overdue": 1, "due": 2, "blocked": 3, "healthy": 4}
    return sorted(looks, key=lambda look: (order[look.verdict], -look.rank, look.dataset))[:count]


def _name(uri: str) -> str:
    last = uri.rstrip("/").rpartition("/")[2]
    plain = "".join(char if char.isalnum() or char in "-_" else "-" for char in last).strip("-_")
    return plain if plain and not plain[0].isdigit() else "main"


def _options(store: str, options: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    lines: list[str] = []
    variables: list[str] = []
    for key, value in options.items():
        shown = value
        if is_secret(key, value):
            variable = f"{store}_{key}".upper().replace("-", "_")
            variables.append(variable)
            shown = f"${{{variable}}}"
        lines.append(f"      {key}: {_quoted(shown)}")
    return ("    options:\n" + "\n".join(lines) + "\n" if lines else ""), tuple(variables)


def _quoted(text: str) -> str:
    """A text as YAML writes it within a line."""
    return yaml.safe_dump(text, default_flow_style=True, width=10**6).strip().removesuffix("...").strip()
