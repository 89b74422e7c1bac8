"""Values of components' YAML: paths beside the file, and who runs tasks."""

from typing import Annotated, Any

import dagster as dg
from dagster.components import ResolutionContext

from lance_ops.errors import InvalidArgumentError
from lance_ops.storage.paths import is_address


def _beside(context: ResolutionContext, value: str) -> str:
    """A path as the YAML file says it, from the folder of that file on."""
    if is_address(value):
        return value
    return str(context.resolve_source_relative_path(value))


LocalPath = Annotated[str, dg.Resolver(_beside, model_field_type=str)]


def runner_of(name: str) -> Any:
    """The name of a runner.

    Raises:
        InvalidArgumentError: There is none of that name.
    """
    if name not in ("local", "spark", "spark-submit"):
        raise InvalidArgumentError(
            f"no such runner: {name!r}", field="runner", hint="local, spark or spark-submit"
        )
    return name
