"""State of an alert sensor, in its cursor and, after failed ticks, in Dagster's key-value storage.

Dagster saves the cursor of a successful tick only. A tick with an undelivered alert fails, so that people see
it, but may have delivered others: its state is saved outside of the cursor. The newer of the two counts. A
reset cursor starts a new state.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import dagster as dg

SCHEMA = 2


@dataclass(slots=True)
class AlertMemory:
    """The state of one sensor.

    Attributes:
        instance: With the storage.
        owner: Name of the sensor: two sensors never share a state, even with a copied cursor.
        name: Name of this state.
        is_new: The name is in no stored cursor yet, so nothing is saved outside of it.
        serial: Counter of states.
        content: The state as JSON values; empty at first.
        former: Cursor of a release before this one, as JSON values.
    """

    instance: dg.DagsterInstance
    owner: str
    name: str
    is_new: bool
    serial: int = 0
    content: Mapping[str, Any] = field(default_factory=dict)
    former: Any = None

    @classmethod
    def recall(cls, instance: dg.DagsterInstance, owner: str, cursor: str | None) -> "AlertMemory":
        """Read the newest state; one that cannot be parsed counts as none."""
        stored = _parse(cursor)
        if not isinstance(stored, dict) or stored.get("schema") != SCHEMA or not stored.get("memory"):
            return cls(instance, owner, secrets.token_hex(8), is_new=True, former=stored)
        memory = cls(instance, owner, str(stored["memory"]), is_new=False)
        beside = _parse(instance.daemon_cursor_storage.get_cursor_values({memory.key}).get(memory.key))
        newest = max((item for item in (stored, beside) if isinstance(item, dict)), key=_serial)
        content = newest.get("state")
        memory.serial, memory.content = _serial(newest), content if isinstance(content, dict) else {}
        return memory

    @property
    def key(self) -> str:
        """The key of the state in the storage."""
        whose = blake2b(f"{self.owner}\n{self.name}".encode(), digest_size=12).hexdigest()
        return f"lance_ops/alert_sensor/{whose}"

    def keep(self, content: Mapping[str, Any]) -> None:
        """Save a state outside of the cursor, in case this tick fails or its process ends."""
        self.content = content
        self.serial += 1
        if not self.is_new:
            self.instance.daemon_cursor_storage.set_cursor_values({self.key: self._text()})

    def cursor(self, content: Mapping[str, Any]) -> str:
        """Return the cursor with a state."""
        self.content = content
        self.serial += 1
        return self._text()

    def _text(self) -> str:
        return json.dumps(
            {"schema": SCHEMA, "memory": self.name, "serial": self.serial, "state": self.content}, default=str
        )


def _serial(stored: Mapping[str, Any]) -> int:
    serial = stored.get("serial")
    return serial if type(serial) is int else 0


def _parse(text: str | None) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None
