"""Policy file: from YAML to `FleetPolicy`; every problem is listed with its line.

pydantic validates the tables of the file, which have the fields of the dataclasses that they become.
`FleetPolicy` checks relations between them, such as names of stores.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    create_model,
)

from lance_ops.alerts.rule import AlertRule
from lance_ops.errors import LanceOpsError, NotFoundError, PolicyError, PolicyProblem
from lance_ops.fleet.policy.document import Document, read_document
from lance_ops.fleet.policy.model import (
    Assignment,
    Budget,
    DiscoverRule,
    FleetPolicy,
    PolicyClass,
    StoreSpec,
)
from lance_ops.fleet.policy.secrets import Options
from lance_ops.fleet.policy.settings import SETTINGS, Bytes, Count, Duration, Mode, Text
from lance_ops.fleet.policy.windows import Blackout, Window
from lance_ops.storage.paths import is_address, parse_location, refuse_secrets
from lance_ops.storage.variables import expand

_SECRET = frozenset({"alerts", "ledger", "options", "root", "stores"})
"""Keys whose values are never quoted in messages."""


def load_policy(path: str | Path) -> FleetPolicy:
    """Read a policy file.

    Args:
        path: The file. Paths of stores in it that are relative start at its folder.

    Raises:
        PolicyError: It is invalid; lists every problem with its line.
        NotFoundError: The file does not exist.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NotFoundError(
            "there is no policy file", path=str(path), hint="lance-ops fleet adopt ROOT writes one"
        ) from error
    except IsADirectoryError as error:
        raise NotFoundError(
            "the policy is a folder, expected a file",
            path=str(path),
            hint="add the name of the file, such as lance_fleet.yaml",
        ) from error
    except UnicodeDecodeError as error:
        raise NotFoundError(
            "the policy is not text in UTF-8", path=str(path), hint="name a YAML file"
        ) from error
    except OSError as error:
        raise NotFoundError(
            f"cannot read the policy: {error.strerror or error}",
            path=str(path),
            hint="lance-ops fleet adopt ROOT writes one",
        ) from error
    return parse_policy(text, source=str(path), base=file.resolve().parent)


def parse_policy(text: str, *, source: str = "", base: Path | None = None) -> FleetPolicy:
    """Read the text of a policy file.

    Args:
        text: YAML.
        source: Its name, for messages.
        base: Folder at which relative paths start; the working directory if None.

    Raises:
        PolicyError: It is invalid; lists every problem with its line.
    """
    document = read_document(text, source)
    value, problems = document.value, list(document.problems)
    if isinstance(value, dict) and "version" not in value:
        problems.append(PolicyProblem(1, "version", "must be 1, got nothing"))
    # Default values for invalid ones, so that all problems are listed at once.
    removed = [problem.where for problem in problems]
    policy = None
    while policy is None:
        try:
            policy = _policy(_FILE.model_validate(value, context=base), source, document.lines)
        except ValidationError as error:
            items = error.errors()
            found = [_problem(document, item["loc"], _message(item)) for item in items]
            problems += _independent(found, removed)
            removed += [_path(item["loc"]) for item in items if item["type"] != "extra_forbidden"]
            if not sum(_remove(value, item["loc"]) for item in items):
                break
        except PolicyError as error:
            problems += _independent(error.problems, removed)
            break
    if problems or policy is None:
        raise PolicyError(problems, path=source or None)
    return policy


# The schema of the file


def _or_empty(value: object) -> object:
    return value or {}


def _unless_null(value: object) -> object:
    return {} if value is None else value


def _listed(value: object) -> object:
    return [value] if value and isinstance(value, str) else value or []


def _under(key: str) -> BeforeValidator:
    """Accept a string for a table that has it under a key."""
    return BeforeValidator(lambda value: {key: value} if isinstance(value, str) else _unless_null(value))


def _option_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _root(text: str, info: ValidationInfo) -> str:
    """Expand variables, and check that the value is a location without secrets.

    Raises:
        ValueError: It is not.
    """
    text, base = expand(text), info.context
    if base is not None and not is_address(text) and not text.startswith("~"):
        text = str(base / text)
    try:
        refuse_secrets(text)
        parse_location(text)
    except LanceOpsError as error:
        raise ValueError(error.message) from error
    return text


_Loose = Annotated[str, Field(strict=False, coerce_numbers_to_str=True)]
_Options = Annotated[dict[str, Annotated[str, BeforeValidator(_option_text)]], BeforeValidator(_or_empty)]
_Root = Annotated[Text, AfterValidator(_root)]
_Texts = Annotated[list[str], BeforeValidator(_listed)]
_TYPES: Mapping[Any, Any] = {
    str: Text,
    str | None: Text,
    tuple[str, ...]: _Texts,
    timedelta: Duration,
    timedelta | None: Duration,
}
"""Types in the file for the fields of dataclasses; a given value is never `null`."""


class _Part(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    def given(self, *but: str) -> dict[str, Any]:
        """Return the values of the given keys, in the order of the fields, lists as tuples."""
        names = [name for name in type(self).model_fields if name in self.model_fields_set.difference(but)]
        found = {name: getattr(self, name) for name in names}
        return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}


def _model(kind: Any, **types: Any) -> Any:
    """Return a model with the fields of a dataclass as keys; `types` replaces types."""
    known = {
        item.name: (types.get(item.name, _TYPES.get(item.type, item.type)), None) for item in fields(kind)
    }
    return create_model(kind.__name__, __base__=_Part, **cast("Any", known))


def _table(kind: Any, least: Mapping[str, object] | None = None, **types: Any) -> Any:
    """Convert a table to its dataclass; `least` has required values that the file lacks."""
    build = AfterValidator(lambda part: kind(**{**(least or {}), **part.given()}))
    return Annotated[_model(kind, **types), build]


def _list(item: Any) -> Any:
    return Annotated[list[item], BeforeValidator(_listed)]


def _named(item: Any) -> Any:
    return Annotated[dict[str, item], BeforeValidator(_or_empty)]


def _discover(value: object) -> object:
    return {"kind": "glob"} | value if isinstance(value, dict) and "glob" in value else value


class _Blackout(_Part):
    days: _Loose = "all"
    hours: _Loose = "0-24"
    timezone: _Loose = "UTC"
    first: date = Field(default=date.min, alias="from")
    last: date = Field(default=date.min, alias="to")

    def span(self) -> Window | Blackout:
        """Check: ValueError for days and hours beside a first and last day."""
        given = self.model_fields_set
        if not given & {"first", "last"}:
            return Window(self.days, self.hours, self.timezone)
        if "first" not in given or given & {"days", "hours"}:
            raise ValueError("a blackout has from and to, or days and hours")
        return Blackout(self.first, self.last if "last" in given else self.first, self.timezone)


_WINDOWS = _list(_table(Window, days=_Loose, hours=_Loose, timezone=_Loose))
_BLACKOUTS = _list(Annotated[_Blackout, AfterValidator(_Blackout.span)])
_LIMITS: Any = {
    "bytes_per_hour": Bytes,
    "runs": Annotated[int, Field(ge=1)],
    "requests_per_second": Annotated[float, Field(gt=0, le=1e18)],
}
_CLASS: Any = create_model(
    "Class",
    __base__=_Part,
    extends=(Text | None, None),
    windows=(_WINDOWS, []),
    blackouts=(_BLACKOUTS, []),
    **cast("Any", {name: (item.type, item.default) for name, item in SETTINGS.items()}),
)
_STORE: Any = create_model("Store", __base__=_Part, root=(_Root, ""), options=(_Options, {}))
_LEDGER: Any = create_model(
    "Ledger", __base__=_Part, path=(_Root | None, None), options=(_Options, {}), keep=(Duration, None)
)
_LEDGER_OR_PATH: Any = Annotated[_LEDGER, _under("path")]
_BUDGET: Any = create_model(
    "Budget", __base__=_model(Budget, **_LIMITS), per_store=(_named(_table(Budget, **_LIMITS)), {})
)
_ASSIGNMENT = _table(
    Assignment,
    {"match": "*"},
    class_name=Annotated[_Loose, Field(alias="class")],
    owner=_Loose | None,
)
_DISCOVER: Any = Annotated[
    _table(
        DiscoverRule,
        {"store": ""},
        path=Annotated[_Loose, AfterValidator(lambda path: path.strip("/"))],
        depth=Annotated[Count, AfterValidator(lambda depth: depth or 6)],
    ),
    BeforeValidator(_discover),
]
_FILE: Any = create_model(
    "File",
    __base__=_Part,
    version=(Literal[1], 1),
    mode=(Mode, "observe"),
    ledger=(_LEDGER_OR_PATH, _LEDGER()),
    stores=(_named(Annotated[_STORE, _under("root")]), {}),
    discover=(_list(_DISCOVER), []),
    classes=(_named(Annotated[_CLASS, BeforeValidator(_or_empty)]), {}),
    assign=(_list(_ASSIGNMENT), []),
    windows=(_WINDOWS, []),
    blackouts=(_BLACKOUTS, []),
    budget=(Annotated[_BUDGET, BeforeValidator(_unless_null)], _BUDGET()),
    alerts=(_list(_table(AlertRule, {"to": "log"})), []),
)


def _policy(file: Any, source: str, lines: Mapping[str, int]) -> FleetPolicy:
    given = file.given("version", "ledger", "stores", "classes", "budget")
    return FleetPolicy(
        stores=tuple(StoreSpec(name, item.root, Options(item.options)) for name, item in file.stores.items()),
        classes=tuple(_class(name, item) for name, item in file.classes.items()),
        budget=Budget(**file.budget.given("per_store")),
        budgets=file.budget.per_store,
        ledger=file.ledger.path,
        ledger_options=Options(file.ledger.options),
        source=source,
        lines=lines,
        **({} if file.ledger.keep is None else {"keep": file.ledger.keep}),
        **given,
    )


def _class(name: str, part: Any) -> PolicyClass:
    given = part.given()
    others = {key: given.pop(key) for key in ("extends", "windows", "blackouts") if key in given}
    return PolicyClass(name, given, **others)


# Problems

_MEANINGS = {
    "bool_type": "must be on or off",
    "date_type": "must be a day, such as 2026-12-24",
    "dict_type": "must be a table of names and values",
    "int_type": "must be a whole number",
    "list_type": "must be a list",
    "model_type": "must be a table of names and values",
    "string_too_short": "must not be empty",
    "string_type": "must be a string",
}


def _message(item: Any) -> str:
    """Format a problem: what is wrong with a value, the value, and what to write."""
    loc, kind, value = item["loc"], item["type"], item["input"]
    if kind == "extra_forbidden":
        known = _keys_at(loc[:-1])
        close = difflib.get_close_matches(str(loc[-1]), known, 1)
        return f"unknown key {loc[-1]!r}; " + (
            f"is {close[0]} meant?" if close else f"use {', '.join(known)}"
        )
    if kind == "value_error":
        error = item["ctx"]["error"]
        return error.message if isinstance(error, LanceOpsError) else str(error)
    message = _MEANINGS.get(kind) or item["msg"].replace("Input should", "must")
    # A list or a table may contain secrets that belong elsewhere.
    is_hidden = isinstance(value, dict | list) or _SECRET.intersection(loc)
    return message if is_hidden else f"{message}, got {value!r}"


def _keys_at(loc: tuple[int | str, ...]) -> list[str]:
    """Return the allowed keys of a table of the file."""
    part: Any = _FILE
    for step in loc:
        if isinstance(part, type) and issubclass(part, BaseModel):
            part = part.model_fields[str(step)].annotation
        else:
            # For a list its items, for a table its values.
            part = get_args(part)[-1]
            part = getattr(part, "__origin__", part)
    return [item.alias or name for name, item in part.model_fields.items()]


def _problem(document: Document, loc: tuple[int | str, ...], message: str) -> PolicyProblem:
    """Return a problem with the line of its value, or of the enclosing one."""
    paths = [_path(loc[:count]) for count in range(len(loc), -1, -1)]
    line = next((document.lines[path] for path in paths if path in document.lines), None)
    return PolicyProblem(line, paths[0], message)


def _path(loc: tuple[int | str, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in loc).removeprefix(".")


def _independent(found: Sequence[PolicyProblem], removed: Sequence[str]) -> list[PolicyProblem]:
    """Return the problems that do not follow from the removal of values at the same place or in it."""
    return [
        item
        for item in found
        if not any(f"{path}.".startswith((f"{item.where}.", f"{item.where}[")) for path in removed)
    ]


def _remove(value: Any, loc: tuple[int | str, ...]) -> bool:
    """Remove the innermost key of the path of a value; False if there is none."""
    tables: list[tuple[dict[Any, Any], int | str]] = []
    for step in loc:
        if isinstance(value, dict) and step in value:
            tables.append((value, step))
        elif not isinstance(value, list) or not isinstance(step, int):
            break
        value = value[step]
    if not tables:
        return False
    table, step = tables[-1]
    if len(tables) == 2 and loc[0] in ("stores", "classes") and table[step]:
        # Others may refer to it.
        table[step] = {}
    else:
        del table[step]
    return True
