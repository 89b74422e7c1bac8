"""Values in the YAML of components: relative paths, fields of dataclasses, translations of assets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import dagster as dg
from dagster.components import AssetAttributesModel, Model, ResolutionContext
from pydantic import BaseModel, create_model

from lance_ops.errors import InvalidArgumentError
from lance_ops.fleet.policy.quantities import parse_duration
from lance_ops.spark.submitted.request import import_named
from lance_ops.storage.paths import is_address

Translation = Callable[[dg.AssetSpec, Mapping[str, Any]], dg.AssetSpec]
"""Changes the spec of a dataset's asset; the mapping has the names for templates."""

_TRANSLATED = frozenset(
    {
        "key",
        "key_prefix",
        "group_name",
        "description",
        "metadata",
        "tags",
        "owners",
        "kinds",
        "deps",
        "automation_condition",
        "code_version",
        "freshness_policy",
    }
)
_MERGED = frozenset({"metadata", "tags"})


def _relative_to_file(context: ResolutionContext, value: str) -> str:
    """Return a path of the YAML file relative to its folder."""
    text = str(context.resolve_value(value))
    return text if is_address(text) else str(context.resolve_source_relative_path(text))


LocalPath = Annotated[str, dg.Resolver(_relative_to_file, model_field_type=str)]


def runner_of(name: str) -> Any:
    """Return the name of a runner.

    Raises:
        InvalidArgumentError: It is unknown.
    """
    if name not in ("local", "spark", "spark-submit"):
        raise InvalidArgumentError(
            f"unknown runner {name!r}", field="runner", hint="expected local, spark or spark-submit"
        )
    return name


# Objects of user code


def _imported(context: ResolutionContext, value: Any) -> Any:
    found = context.resolve_value(value)
    if isinstance(found, Mapping):
        return {name: _named(item) for name, item in found.items()}
    return [_named(item) for item in found] if isinstance(found, list) else _named(found)


def _named(value: Any) -> Any:
    """Return an object: the value of a template, or imported from `module:name`."""
    return import_named(value, field="module:name") if isinstance(value, str) else value


IMPORTED = dg.Resolver(_imported, model_field_type=str | list[str] | dict[str, str])
"""Resolver of fields with objects as `module:name`: one, several, or several by name; or templates of them.
"""


# Dataclasses


def settings_of(cls: type[Any]) -> dg.Resolver:
    """Return a resolver of a field with the fields of a dataclass by name; durations as `14d` or `12h`.

    Args:
        cls: The dataclass; its fields may be dataclasses, and sequences of them, in turn.
    """

    def resolve(context: ResolutionContext, model: Any) -> Any:
        given = model.model_dump(exclude_unset=True) if isinstance(model, BaseModel) else model
        value = context.resolve_value(given)
        return value if isinstance(value, cls) else _built(cls, value)

    return dg.Resolver(resolve, model_field_type=_model_of(cls) | str)


def _model_of(cls: type[Any]) -> type[BaseModel]:
    """Return the schema of a dataclass in YAML, used by `dg check yaml`."""
    hints = get_type_hints(cls)
    own: dict[str, Any] = {
        item.name: (
            _yaml_type(hints[item.name]) | str,
            ... if item.default is MISSING and item.default_factory is MISSING else None,
        )
        for item in fields(cls)
    }
    return create_model(f"{cls.__name__}Settings", __base__=Model, **own)


def _yaml_type(hint: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        found = _yaml_type(arguments[0])
        for other in arguments[1:]:
            found |= _yaml_type(other)
        return found
    if origin in (tuple, frozenset, list, Sequence):
        return list[_yaml_type(arguments[0])]  # type: ignore[misc]  # made when the component is loaded
    if origin is Mapping:
        return dict[str, _yaml_type(arguments[1])]  # type: ignore[misc]  # see above
    if hint is timedelta:
        return str
    if is_dataclass(hint):
        return _model_of(hint)  # type: ignore[arg-type]  # a class, not an instance
    plain = hint in (str, int, float, bool, type(None)) or origin is Literal
    return hint if plain else Any


def _built(cls: type[Any], given: Mapping[str, Any]) -> Any:
    """Build a dataclass from YAML values.

    Raises:
        InvalidArgumentError: A value is invalid; names the field.
    """
    hints = get_type_hints(cls)
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in hints:
            known = ", ".join(item.name for item in fields(cls))
            raise InvalidArgumentError(f"{cls.__name__} has no {name!r}", field=name, hint=f"one of {known}")
        try:
            values[name] = _python_value(hints[name], value)
        except ValueError as error:
            raise InvalidArgumentError(f"{cls.__name__}, {name}: {error}", field=name) from None
    return cls(**values)


def _python_value(hint: Any, value: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return None if value is None else _python_value(arguments[0], value)
    if hint is timedelta:
        return parse_duration(value)
    if origin in (tuple, frozenset, list, Sequence) and isinstance(value, list):
        made = [_python_value(arguments[0], item) for item in value]
        return frozenset(made) if origin is frozenset else tuple(made)
    if is_dataclass(hint) and isinstance(value, Mapping):
        return _built(hint, value)  # type: ignore[arg-type]  # a class, not an instance
    return value


# Values of Dagster


def _freshness(context: ResolutionContext, value: Any) -> Any:
    """Parse `12h`; `{fail_window: 24h, warn_window: 12h}`; `{deadline_cron: ..., lower_bound_delta: 1h}`."""
    found = context.resolve_value(value)
    if found is None or isinstance(found, dg.FreshnessPolicy):
        return found
    if isinstance(found, str):
        return dg.FreshnessPolicy.time_window(fail_window=parse_duration(found))
    known: dict[str, Any] = {
        name: item if name in ("deadline_cron", "timezone") else parse_duration(item)
        for name, item in found.items()
    }
    if "deadline_cron" in known:
        return dg.FreshnessPolicy.cron(**known)
    return dg.FreshnessPolicy.time_window(**known)


Freshness = Annotated[
    dg.FreshnessPolicy | None, dg.Resolver(_freshness, model_field_type=str | dict[str, str])
]


def _backfill_policy(context: ResolutionContext, value: Any) -> Any:
    """Parse `{type: single_run}` or `{type: multi_run, max_partitions_per_run: 7}`, as in Dagster."""
    found = context.resolve_value(value)
    if found is None or isinstance(found, dg.BackfillPolicy):
        return found
    if found == {"type": "single_run"}:
        return dg.BackfillPolicy.single_run()
    if found.get("type") == "multi_run" and set(found) <= {"type", "max_partitions_per_run"}:
        return dg.BackfillPolicy.multi_run(found.get("max_partitions_per_run", 1))
    raise InvalidArgumentError(
        f"unknown backfill policy {found!r}",
        field="backfill_policy",
        hint="{type: single_run} or {type: multi_run, max_partitions_per_run: 7}",
    )


BackfillPolicy = Annotated[
    dg.BackfillPolicy | None, dg.Resolver(_backfill_policy, model_field_type=str | dict[str, Any])
]


def _retry_policy(context: ResolutionContext, value: Any) -> Any:
    """Parse `{max_retries: 3, delay: 10, backoff: EXPONENTIAL, jitter: FULL}` for `dg.RetryPolicy`."""
    found = context.resolve_value(value)
    if found is None or isinstance(found, dg.RetryPolicy):
        return found
    kinds: Mapping[str, Any] = {"backoff": dg.Backoff, "jitter": dg.Jitter}
    try:
        return dg.RetryPolicy(
            **{name: kinds[name][item.upper()] if name in kinds else item for name, item in found.items()}
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(
            f"invalid retry policy {found!r}: {error}",
            field="retry_policy",
            hint="{max_retries: 3, delay: 10, backoff: EXPONENTIAL, jitter: PLUS_MINUS}",
        ) from error


RetryPolicy = Annotated[
    dg.RetryPolicy | None, dg.Resolver(_retry_policy, model_field_type=str | dict[str, Any])
]


def _translation(context: ResolutionContext, model: Any) -> Any:
    """Parse attributes of an asset, with `{{ dataset }}` and `{{ spec }}`; or a function from a template."""

    def translate(spec: dg.AssetSpec, scope: Mapping[str, Any]) -> dg.AssetSpec:
        here = context.at_path("translation").with_scope(**scope, spec=spec)
        given = here.resolve_value(model) if isinstance(model, str) else model
        if isinstance(given, dg.AssetSpec):
            return given
        names = given.model_fields_set if isinstance(given, BaseModel) else set(given)
        if unknown := sorted(names - _TRANSLATED):
            raise InvalidArgumentError(
                f"translation of {spec.key.to_user_string()} has unknown attributes: {', '.join(unknown)}",
                field="translation",
                hint=f"one of {', '.join(sorted(_TRANSLATED))}",
            )
        values = {
            name: here.resolve_value(getattr(given, name) if isinstance(given, BaseModel) else given[name])
            for name in names
        }
        return _changed(spec, values)

    return translate


TRANSLATED = dg.Resolver(
    _translation, model_field_type=str | AssetAttributesModel, inject_before_resolve=False
)
"""Resolver of fields of the type `Translation | None`."""


def _changed(spec: dg.AssetSpec, values: dict[str, Any]) -> dg.AssetSpec:
    key = values.pop("key", spec.key)
    key = dg.AssetKey.from_user_string(key) if isinstance(key, str) else key
    prefix = values.pop("key_prefix", None)
    values["key"] = key if prefix is None else key.with_prefix(prefix)
    if "deps" in values:
        values["deps"] = [
            dg.AssetKey.from_user_string(item) if isinstance(item, str) else item for item in values["deps"]
        ]
    if values.get("code_version") is not None:
        values["code_version"] = str(values["code_version"])
    if "kinds" in values:
        values["kinds"] = set(values["kinds"])
    merged = {name: values.pop(name) for name in _MERGED & values.keys()}
    if "tags" in merged:
        merged["tags"] = {name: str(value) for name, value in merged["tags"].items()}
    return spec.replace_attributes(**values).merge_attributes(**merged)
