"""Where calibrated costs are kept: in the config of a table, or in a file of the user, for each store."""

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from lance_ops.errors import InvalidArgumentError, LanceOpsError, StorageError
from lance_ops.maintenance.compact.costs import CostModel
from lance_ops.table.dataset import Dataset

CONFIG_KEY = "lance_ops.compaction.costs"
"""Entry of a table's config: JSON of a `CostModel`, all numbers optional."""

FILE_VARIABLE = "LANCE_OPS_COSTS"
"""Variable of the environment that names another file than the one in the user's cache."""

_REMOTE_REQUEST = 5e-3
"""Seconds that a request adds on a store that nobody has calibrated: about 50 ms, ten of them at once."""


def costs_of(dataset: Dataset) -> tuple[CostModel, tuple[str, ...]]:
    """The costs for a dataset: of its own config, else as calibrated for its store, else the defaults.

    Returns:
        The model, and a warning when what is kept cannot be read; the next in the row is taken then.
    """
    warnings: list[str] = []
    noted = dataset.config.get(CONFIG_KEY)
    if noted is not None:
        try:
            return _parsed(noted, "the config of the table"), ()
        except LanceOpsError as error:
            warnings.append(f"{CONFIG_KEY} in the table's config is ignored: {error.message}")
    key = store_key(dataset.uri)
    try:
        kept = _read(costs_file()).get(key)
        if kept is not None:
            return _parsed(json.dumps(kept), f"the calibration of {key}"), tuple(warnings)
    except LanceOpsError as error:
        warnings.append(f"the calibration in {costs_file()} is ignored: {error.message}")
    return default_costs(dataset.uri), tuple(warnings)


def default_costs(uri: str) -> CostModel:
    """The costs of a store that nobody has calibrated."""
    return CostModel() if store_key(uri) == "file" else CostModel(request=_REMOTE_REQUEST)


def store_key(uri: str) -> str:
    """What all datasets of one store have in common: scheme and bucket, or `file`."""
    parts = urlsplit(str(uri))
    return f"{parts.scheme}://{parts.netloc}" if "://" in str(uri) and parts.scheme != "file" else "file"


def costs_file() -> Path:
    """The file of the user: `lance-ops/costs.json` in XDG_CACHE_HOME or HOME/.cache."""
    named = os.environ.get(FILE_VARIABLE)
    if named:
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "lance-ops" / "costs.json"


def keep_costs(uri: str, costs: CostModel) -> Path:
    """Keep costs for the store of a URI in the file of the user.

    Raises:
        StorageError: The file cannot be written.
    """
    path = costs_file()
    try:
        kept: dict[str, object] = {}
        with suppress(InvalidArgumentError):
            kept = _read(path)
        kept[store_key(uri)] = costs.to_dict()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".costs-")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(kept, file, indent=1)
        Path(name).replace(path)
    except OSError as error:
        raise StorageError(
            f"the costs cannot be kept: {error}", path=str(path), hint=f"set {FILE_VARIABLE}, or save none"
        ) from error
    return path


def _read(path: Path) -> dict[str, object]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        return {}
    except ValueError as error:
        raise InvalidArgumentError(f"it is no JSON: {error}", field=str(path)) from error
    if not isinstance(kept, dict):
        raise InvalidArgumentError("it is no JSON object", field=str(path))
    return kept


def _parsed(text: str, source: str) -> CostModel:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise InvalidArgumentError(f"it is no JSON: {error}", field=CONFIG_KEY) from error
    if not isinstance(values, dict):
        raise InvalidArgumentError("it is no JSON object", field=CONFIG_KEY)
    return CostModel.from_dict({**values, "source": source})
