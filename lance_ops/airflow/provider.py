"""Provider metadata for Airflow."""

from typing import Any

from lance_ops._version import __version__

CONNECTION_TYPE = "lance"


def get_provider_info() -> dict[str, Any]:
    """Return the metadata for the entry point `apache_airflow_provider`."""
    return {
        "package-name": "lance-ops",
        "name": "Lance",
        "description": "Operators for Lance datasets and fleets, and events of new versions.",
        "versions": [__version__],
        "connection-types": [
            {"connection-type": CONNECTION_TYPE, "hook-class-name": "lance_ops.airflow.hook.LanceHook"}
        ],
        "integrations": [
            {
                "integration-name": "Lance",
                "external-doc-url": "https://lance.org",
                "tags": ["software"],
            }
        ],
        "hooks": [{"integration-name": "Lance", "python-modules": ["lance_ops.airflow.hook"]}],
        "operators": [{"integration-name": "Lance", "python-modules": ["lance_ops.airflow.operators"]}],
        "sensors": [{"integration-name": "Lance", "python-modules": ["lance_ops.airflow.sensors"]}],
        "triggers": [{"integration-name": "Lance", "python-modules": ["lance_ops.airflow.triggers"]}],
    }
