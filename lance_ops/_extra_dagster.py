"""Extra `dagster`: importing this says what to install where Dagster is missing."""

import importlib.util

if importlib.util.find_spec("dagster") is None:
    raise ModuleNotFoundError("Dagster is not installed: pip install 'lance-ops[dagster]'", name="dagster")
