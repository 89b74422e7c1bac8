"""Result of an operation that makes no version."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Told:
    """Result of an operation that makes no version.

    Attributes:
        text: The result as text.
        metadata: Numbers.
        failed: The step fails with the text.
    """

    text: str
    metadata: Mapping[str, object] = field(default_factory=dict)
    failed: bool = False

    def __str__(self) -> str:
        return self.text
