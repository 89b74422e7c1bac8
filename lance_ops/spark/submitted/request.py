"""Request: one serialized piece of work: an operation on a dataset, or rows of a source."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from lance_ops.errors import InvalidArgumentError
from lance_ops.spark.cache import publish_tree

SCHEMA = 1

REQUEST, STORAGE_OPTIONS, WATCH = "lance_ops_request", "lance_ops_storage_options", "lance_ops_watch"
"""Extras of Pipes: the request, options of the store, and the file locked by the submitter."""

CONTEXT_FILE, PROPERTIES = "context", "properties"
"""Files beside the locked one; they may contain secrets."""

_PROGRAM = """\
from lance_ops.spark.submitted.program import main

main()
"""


@dataclass(frozen=True, slots=True)
class Request:
    """One piece of work on a dataset. All values are JSON values.

    Attributes:
        operation: Name in `operations.OPERATIONS`.
        uri: The dataset.
        arguments: Arguments of the operation.
        job_key: Job key of the commit.
        properties: Properties of the transaction.
    """

    operation: str
    uri: str
    arguments: Mapping[str, Any]
    job_key: str | None
    properties: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Request":
        """Read a value of `to_dict`.

        Raises:
            InvalidArgumentError: It is from another release.
        """
        if values.get("schema") != SCHEMA:
            raise InvalidArgumentError(
                f"the request has schema {values.get('schema')!r}, expected {SCHEMA}",
                field="schema",
                hint="install the same release of lance-ops with the scheduler and on the cluster",
            )
        return cls(**{name: value for name, value in values.items() if name != "schema"})


def program_file() -> Path:
    """Return the file for `spark-submit`: in a folder without others, which Python could import from."""
    return publish_tree("program", {"lance_ops_program.py": _PROGRAM}) / "lance_ops_program.py"


@dataclass(frozen=True, slots=True)
class FromEnvironment:
    """A secret that is not sent: an environment variable of the program has it.

    Attributes:
        name: Name of the variable.
    """

    name: str


Options = Mapping[str, str | FromEnvironment]
"""Options of a store."""


def pack_options(options: Options) -> dict[str, Any]:
    """Convert options of a store to JSON values."""
    return {
        name: {"env": value.name} if isinstance(value, FromEnvironment) else value
        for name, value in options.items()
    }


def unpack_options(values: Mapping[str, Any]) -> dict[str, str]:
    """Read options of `pack_options`, with the variables of this process.

    Raises:
        InvalidArgumentError: One of them is not set.
    """
    found: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, str):
            found[name] = value
            continue
        variable = value["env"]
        if variable not in os.environ:
            raise InvalidArgumentError(
                f"storage option {name!r} refers to the environment variable {variable}, which is not set "
                "here",
                field="storage_options",
                hint=f"set {variable} for the driver, e.g. by spark.kubernetes.driver.secretKeyRef or "
                "spark.yarn.appMasterEnv",
            )
        found[name] = os.environ[variable]
    return found


def import_named(name: str, *, field: str) -> Any:
    """Import `module:name`.

    Raises:
        InvalidArgumentError: It does not exist.
    """
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (AttributeError, ImportError, ValueError) as error:
        raise InvalidArgumentError(
            f"cannot import {name!r}: {error}", field=field, hint="use module:name, importable where it runs"
        ) from error
