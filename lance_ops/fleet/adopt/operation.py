"""Adopt a store: find its datasets, measure them, and write a policy in mode observe."""

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from lance_ops.errors import DatasetExistsError, InvalidArgumentError, LanceOpsError
from lance_ops.fleet.discover.folders import list_folders
from lance_ops.fleet.discover.namespace import MANIFEST
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.ledger.rows import Look
from lance_ops.fleet.policy.load import parse_policy
from lance_ops.fleet.policy.model import LEDGER_FOLDER, FleetPolicy
from lance_ops.fleet.stores.opened import FleetStores
from lance_ops.fleet.survey.operation import Survey, SurveyOptions, survey_fleet
from lance_ops.maintenance.progress import Progress
from lance_ops.storage import Store, open_store
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
    """Result of an adoption.

    Attributes:
        policy: In observe mode.
        text: Text of its file.
        survey: Survey of its datasets.
        variables: Environment variables that the file refers to for secrets.
        note: Why the ledger is not below the root; empty if it is, or if its place was given.
    """

    policy: FleetPolicy
    text: str
    survey: Survey
    variables: tuple[str, ...]
    note: str = ""

    def worst(self, count: int = 20) -> list[Look]:
        """The datasets that need maintenance most."""
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
        options: Options of the store. The file refers to environment variables for secret ones.
        ledger: Folder or URI of the ledger; when None `_lance_ops_fleet` below the root, or a folder beside
            the file if the root cannot be written.
        kind: Kind of discovery, see `DiscoverRule`; default a namespace if there is one, else folders.
        glob: Pattern of dataset paths below the root, instead of a kind.
        replace: Overwrite the file.
        seconds: Time limit of the survey.
        progress: Receives progress events.

    Raises:
        DatasetExistsError: The file exists.
        InvalidArgumentError: No dataset was found below the root, or kind and pattern exclude each other.
        StorageError: The store fails.
    """
    if file.exists() and not replace:
        raise DatasetExistsError(
            f"{file} already exists", path=str(file), hint="choose another --policy, or use --replace"
        )
    if glob is not None and kind not in (None, "glob"):
        raise InvalidArgumentError(f"glob cannot be used with kind {kind!r}", field="glob")
    if kind == "glob" and glob is None:
        raise InvalidArgumentError(
            "kind 'glob' requires a pattern", field="glob", hint="add --glob, such as '**/*.lance'"
        )
    location = parse_location(root)
    opened = open_store(location.uri, options)
    if kind is None:
        kind = "namespace" if MANIFEST in list_folders(opened, "") else "folder"
    place, note = ledger, ""
    if place is None:
        place, note = _place_of_ledger(opened, location.uri, file)
    name = _name(location.uri)
    written, variables = _options(name, options or {})
    text = _TEXT.format(
        store=name,
        root=_quoted(location.uri),
        options=written,
        rule=f"kind: {kind}" if glob is None else f"glob: {_quoted(glob)}",
        ledger=_quoted(place),
    )
    policy = parse_policy(text, source=str(file))
    stores = FleetStores(policy)
    # The secrets are not in the environment yet.
    stores.use(name, opened)
    is_below = ledger is None and not note
    found = FleetLedger(open_store(policy.ledger_uri, options if is_below else None), policy.keep)
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
            hint="name the folder or bucket above the datasets; or state which those are by --kind or --glob",
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return Adoption(policy, text, survey, variables, note)


def _place_of_ledger(store: Store, root: str, file: Path) -> tuple[str, str]:
    """Return where the ledger is kept, and why it is not below the root."""
    usual = f"{root}/{LEDGER_FOLDER}"
    if not list_folders(store, ""):
        # A write would create the folder.
        return usual, ""
    probe = f"{LEDGER_FOLDER}/probe-{uuid.uuid4().hex[:12]}"
    try:
        store.put(probe, b"")
    except LanceOpsError as error:
        beside = file.absolute().parent / f"{file.stem}-ledger"
        return str(beside), f"{root} cannot be written ({error.message}); the ledger is {beside}"
    with contextlib.suppress(LanceOpsError):
        store.delete(probe)
    return usual, ""


def worst(looks: Sequence[Look], count: int) -> list[Look]:
    """Return the datasets that need maintenance most: by verdict, then by estimated benefit."""
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
    """Quote a string for YAML in one line."""
    return yaml.safe_dump(text, default_flow_style=True, width=10**6).strip().removesuffix("...").strip()
