"""Examples of hypothesis: how many a run for a quick answer tries, whatever the single tests ask for."""

import pytest
from hypothesis import settings

QUICK_EXAMPLES = 10

# Where `@settings` keeps what it was given; hypothesis has no public name for it.
_KEPT = "_hypothesis_internal_use_settings"


def cap_examples(item: pytest.Item) -> None:
    """Let a test try at most `QUICK_EXAMPLES`."""
    test = getattr(item, "obj", None)
    test = getattr(test, "__func__", test)
    asked = getattr(test, _KEPT, None)
    if isinstance(asked, settings) and asked.max_examples > QUICK_EXAMPLES:
        setattr(test, _KEPT, settings(asked, max_examples=QUICK_EXAMPLES))
