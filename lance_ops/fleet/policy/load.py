"""Policy file: from YAML to `FleetPolicy`; every problem is told, with its line."""

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypeVar

from lance_ops.alerts.rule import AlertRule
from lance_ops.errors import InvalidArgumentError, LanceOpsError, NotFoundError, PolicyError, PolicyProblem
from lance_ops.fleet.policy.document import Document, read_document
from lance_ops.fleet.policy.model import (
    Assignment,
    Budget,
    DiscoverRule,
    FleetPolicy,
    PolicyClass,
    StoreSpec,
)
from lance_ops.fleet.policy.quantities import (
    parse_bytes,
    parse_count,
    parse_duration,
    parse_positive,
    parse_several,
    parse_text,
)
from lance_ops.fleet.policy.secrets import Options
from lance_ops.fleet.policy.settings import MODES, SETTINGS
from lance_ops.fleet.policy.windows import Blackout, Window
from lance_ops.storage.paths import is_address, parse_location, refuse_secrets
from lance_ops.storage.variables import expand

T = TypeVar("T")

VERSION = 1
_TOP = (
    "version",
    "mode",
    "ledger",
    "stores",
    "discover",
    "classes",
    "assign",
    "windows",
    "blackouts",
    "budget",
    "alerts",
)
_KINDS = ("folder", "lancedb", "namespace", "glob")


def load_policy(path: str | Path) -> FleetPolicy:
    """Read a policy file.

    Args:
        path: The file. Paths of stores in it that are relative start at its folder.

    Raises:
        PolicyError: It says what makes no sense; lists every problem with its line.
        NotFoundError: There is no such file.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NotFoundError(
            f"the policy cannot be read: {error}",
            path=str(path),
            hint="lance-ops fleet adopt ROOT writes one",
        ) from error
    return parse_policy(text, source=str(path), base=file.resolve().parent)


def parse_policy(text: str, *, source: str = "", base: Path | None = None) -> FleetPolicy:
    """Read the text of a policy file.

    Args:
        text: YAML.
        source: Its name, for messages.
        base: Folder at which relative paths start; that of the process when None.

    Raises:
        PolicyError: It says what makes no sense; lists every problem with its line.
    """
    document = read_document(text, source)
    return _Loader(document, source, base, list(document.problems)).load()


@dataclass(slots=True)
class _Loader:
    document: Document
    source: str
    base: Path | None
    problems: list[PolicyProblem] = field(default_factory=list)

    def load(self) -> FleetPolicy:
        top = self._keys(self.document.value, "", _TOP)
        version = top.get("version")
        if version != VERSION:
            self._say("version", f"version {VERSION} is expected, not {version!r}")
        if top.get("mode", "observe") not in MODES:
            self._say("mode", f"{top['mode']!r} is no mode; choose observe, propose or auto")
        classes = tuple(self._class(name, value) for name, value in self._mapping(top, "classes").items())
        stores = tuple(self._store(name, value) for name, value in self._mapping(top, "stores").items())
        budget, budgets = self._budgets(top.get("budget"))
        keep, ledger = self._ledger(top.get("ledger"))
        values: dict[str, Any] = {
            "stores": stores,
            "discover": tuple(self._each(top, "discover", self._discover)),
            "classes": classes,
            "assign": tuple(self._each(top, "assign", self._assignment)),
            "mode": top.get("mode", "observe"),
            "windows": tuple(self._each(top, "windows", self._window)),
            "blackouts": tuple(self._each(top, "blackouts", self._blackout)),
            "budget": budget,
            "budgets": budgets,
            "alerts": tuple(self._each(top, "alerts", self._alert)),
            **ledger,
        }
        if keep is not None:
            values["keep"] = keep
        try:
            policy = FleetPolicy(**values, source=self.source, lines=self.document.lines)
        except PolicyError as error:
            self.problems += error.problems
        if self.problems:
            raise PolicyError(self.problems, path=self.source or None)
        return policy

    # Parts

    def _store(self, name: str, value: object) -> StoreSpec:
        path = f"stores.{name}"
        found = self._keys({"root": value} if isinstance(value, str) else value, path, ("root", "options"))
        root = self._parsed(found, path, "root", parse_text, None)
        if root is None:
            if "root" not in found:
                self._say(path, "a store needs a root")
            root = "missing"
        options = self._keys(found.get("options") or {}, f"{path}.options", None)
        texts = {key: _option_text(item) for key, item in options.items()}
        return StoreSpec(name, self._root(root, f"{path}.root"), Options(texts))

    def _root(self, text: str, path: str) -> str:
        try:
            text = expand(text)
        except InvalidArgumentError as error:
            self._say(path, error.message)
            return text
        if self.base is not None and not is_address(text) and not text.startswith("~"):
            text = str(self.base / text)
        try:
            refuse_secrets(text)
            parse_location(text)
        except LanceOpsError as error:
            self._say(path, error.message)
        return text

    def _discover(self, value: object, path: str) -> DiscoverRule:
        found = self._keys(value, path, ("store", "kind", "path", "glob", "exclude", "depth"))
        kind = found.get("kind", "glob" if "glob" in found else "folder")
        if kind not in _KINDS:
            self._say(f"{path}.kind", f"{kind!r} is no kind; choose {', '.join(_KINDS)}")
            kind = "folder"
        return DiscoverRule(
            store=self._parsed(found, path, "store", parse_text, "") or "",
            kind=kind,
            path=str(found.get("path", "")).strip("/"),
            glob=self._parsed(found, path, "glob", parse_text, "*.lance") or "*.lance",
            exclude=self._texts(found, path, "exclude"),
            depth=self._parsed(found, path, "depth", parse_count, 6) or 6,
        )

    def _class(self, name: str, value: object) -> PolicyClass:
        path = f"classes.{name}"
        found = self._keys(value or {}, path, (*SETTINGS, "extends", "windows", "blackouts"))
        settings: dict[str, object] = {}
        for key in found.keys() & SETTINGS.keys():
            parsed = self._parsed(found, path, key, SETTINGS[key].parse, _WRONG)
            if parsed is not _WRONG:
                settings[key] = parsed
        return PolicyClass(
            name,
            settings,
            extends=found.get("extends"),
            windows=tuple(self._each(found, "windows", self._window, path)) if "windows" in found else None,
            blackouts=tuple(self._each(found, "blackouts", self._blackout, path)),
        )

    def _assignment(self, value: object, path: str) -> Assignment:
        found = self._keys(value, path, ("match", "class", "owner", "tags"))
        return Assignment(
            match=self._parsed(found, path, "match", parse_text, "*") or "*",
            class_name=str(found.get("class", "default")),
            owner=found.get("owner"),
            tags=self._texts(found, path, "tags"),
        )

    def _window(self, value: object, path: str) -> Window:
        found = self._keys(value, path, ("days", "hours", "timezone"))
        texts = {key: str(item) for key, item in found.items()}
        try:
            return Window(**texts)
        except (InvalidArgumentError, TypeError) as error:
            self._say(path, getattr(error, "message", str(error)))
            return Window()

    def _blackout(self, value: object, path: str) -> Blackout | Window:
        if not isinstance(value, Mapping) or "from" not in value:
            return self._window(value, path)
        found = self._keys(value, path, ("from", "to", "timezone"))
        days = [found["from"], found.get("to", found["from"])]
        if not all(isinstance(day, date) and not isinstance(day, datetime) for day in days):
            self._say(path, "a blackout goes from one day to another, such as 2026-12-24")
            return Window()
        try:
            return Blackout(days[0], days[1], str(found.get("timezone", "UTC")))
        except InvalidArgumentError as error:
            self._say(path, error.message)
            return Window()

    def _budgets(self, value: object) -> tuple[Budget, dict[str, Budget]]:
        if value is None:
            return Budget(), {}
        found = self._keys(value, "budget", ("bytes_per_hour", "runs", "requests_per_second", "per_store"))
        stores = self._keys(found.get("per_store") or {}, "budget.per_store", None)
        return self._budget(found, "budget"), {
            name: self._budget(
                self._keys(
                    item, f"budget.per_store.{name}", ("bytes_per_hour", "runs", "requests_per_second")
                ),
                f"budget.per_store.{name}",
            )
            for name, item in stores.items()
        }

    def _budget(self, found: Mapping[str, Any], path: str) -> Budget:
        return Budget(
            bytes_per_hour=self._parsed(found, path, "bytes_per_hour", parse_bytes, None),
            runs=self._parsed(found, path, "runs", parse_several, None),
            requests_per_second=self._parsed(found, path, "requests_per_second", parse_positive, None),
        )

    def _ledger(self, value: object) -> tuple[Any, dict[str, Any]]:
        if value is None:
            return None, {}
        if isinstance(value, str):
            value = {"path": value}
        found = self._keys(value, "ledger", ("path", "options", "keep"))
        options = self._keys(found.get("options") or {}, "ledger.options", None)
        values: dict[str, Any] = {
            "ledger_options": Options({key: _option_text(item) for key, item in options.items()})
        }
        if "path" in found:
            values["ledger"] = self._root(str(found["path"]), "ledger.path")
        return self._parsed(found, "ledger", "keep", parse_duration, None), values

    def _alert(self, value: object, path: str) -> AlertRule:
        found = self._keys(value, path, tuple(item.name for item in fields(AlertRule)))
        values: dict[str, Any] = {
            name: self._parsed(found, path, name, parse_text, None)
            for name in ("url", "key", "sender", "link", "runbook")
        }
        values |= {name: self._texts(found, path, name) for name in ("kinds", "owners", "recipients")}
        rule = AlertRule(
            to=self._parsed(found, path, "to", parse_text, "log") or "log",
            digest=self._parsed(found, path, "digest", parse_duration, None),
            severity=self._parsed(found, path, "severity", parse_text, None) or "warning",
            **values,
        )
        quiet = self._parsed(found, path, "quiet", parse_duration, None)
        return rule if quiet is None else replace(rule, quiet=quiet)

    # Values

    def _say(self, path: str, message: str) -> None:
        lines = self.document.lines
        place = path
        while place and place not in lines:
            place = place.rpartition(".")[0]
        self.problems.append(PolicyProblem(lines.get(place), path, message))

    def _keys(self, value: object, path: str, known: tuple[str, ...] | None) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            self._say(path, f"a table of names and values is expected, not {value!r}")
            return {}
        for key in value:
            if known is not None and key not in known:
                close = difflib.get_close_matches(str(key), known, 1)
                hint = f"; is {close[0]} meant?" if close else f"; there is {', '.join(known)}"
                self._say(f"{path}.{key}" if path else str(key), f"there is no {key!r} here{hint}")
        return {str(key): item for key, item in value.items() if known is None or key in known}

    def _mapping(self, found: Mapping[str, Any], key: str) -> dict[str, Any]:
        return self._keys(found.get(key) or {}, key, None)

    def _each(
        self, found: Mapping[str, Any], key: str, parse: Callable[[object, str], T], above: str = ""
    ) -> Iterator[T]:
        path = f"{above}.{key}" if above else key
        items = found.get(key) or []
        if not isinstance(items, list):
            self._say(path, f"a list is expected, not {items!r}")
            return
        for i, item in enumerate(items):
            yield parse(item, f"{path}[{i}]")

    def _texts(self, found: Mapping[str, Any], path: str, key: str) -> tuple[str, ...]:
        items = found.get(key) or []
        items = [items] if isinstance(items, str) else items
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            self._say(f"{path}.{key}", f"a list of texts is expected, not {items!r}")
            return ()
        return tuple(items)

    def _parsed(
        self, found: Mapping[str, Any], path: str, key: str, parse: Callable[[Any], Any], default: Any
    ) -> Any:
        if key not in found:
            return default
        try:
            return parse(found[key])
        except ValueError as error:
            self._say(f"{path}.{key}", str(error))
            return default


_WRONG = object()


def _option_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
