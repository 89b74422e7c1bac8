"""Dagster integration: datasets as assets, operations as jobs, sensors, checks and alerts.

`build_lance_definitions` builds everything for a set of datasets; the other builders build its parts.
"""

from lance_ops import _extra_dagster as _extra_dagster
from lance_ops.alerts.message import Message
from lance_ops.alerts.notifier import LogNotifier, Notifier, WebhookNotifier
from lance_ops.alerts.rule import AlertRule
from lance_ops.alerts.services import PagerDutyNotifier, SlackNotifier
from lance_ops.alerts.values import Alert, CheckAlert, ConflictAlert, FailureAlert
from lance_ops.dagster.alerts.check_sensor import build_check_alert_sensor
from lance_ops.dagster.alerts.failure_sensor import build_failure_alert_sensor
from lance_ops.dagster.alerts.options import AlertOptions
from lance_ops.dagster.checks.definitions import build_asset_checks
from lance_ops.dagster.checks.evaluate import evaluate_checks
from lance_ops.dagster.conditions import build_automation_sensor, lance_data_changed
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.downstream import LanceDownstream
from lance_ops.dagster.factory import build_lance_definitions
from lance_ops.dagster.fleet.definitions import build_fleet_definitions
from lance_ops.dagster.ingest.asset import build_ingest_asset
from lance_ops.dagster.ingest.job import build_ingest_job, build_ingest_schedule
from lance_ops.dagster.ingest.spec import IngestRequest, LanceIngest
from lance_ops.dagster.io_manager.manager import LanceIOManager
from lance_ops.dagster.jobs.operations import build_jobs
from lance_ops.dagster.jobs.schedules import MaintenanceTimes, build_maintenance_schedules
from lance_ops.dagster.lineage import column_lineage
from lance_ops.dagster.publication import last_published
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.retry_sensor import build_retry_sensor
from lance_ops.dagster.selection import select_datasets
from lance_ops.dagster.sensor.manifest_sensor import SensorOptions, build_manifest_sensor
from lance_ops.dagster.spec import LanceDatasetTranslator, build_lance_assets
from lance_ops.dagster.submit.client import SparkSubmitClient
from lance_ops.dagster.submit.config import SparkSubmit
from lance_ops.dagster.version_event import version_materialization, version_metadata
from lance_ops.maintenance.health.policy import MaintenancePolicy

__all__ = [
    "Alert",
    "AlertOptions",
    "AlertRule",
    "CheckAlert",
    "ConflictAlert",
    "FailureAlert",
    "IngestRequest",
    "LanceDatasetRef",
    "LanceDatasetTranslator",
    "LanceDownstream",
    "LanceIOManager",
    "LanceIngest",
    "LanceStoreResource",
    "LogNotifier",
    "MaintenancePolicy",
    "MaintenanceTimes",
    "Message",
    "Notifier",
    "PagerDutyNotifier",
    "SensorOptions",
    "SlackNotifier",
    "SparkSubmit",
    "SparkSubmitClient",
    "WebhookNotifier",
    "build_asset_checks",
    "build_automation_sensor",
    "build_check_alert_sensor",
    "build_failure_alert_sensor",
    "build_fleet_definitions",
    "build_ingest_asset",
    "build_ingest_job",
    "build_ingest_schedule",
    "build_jobs",
    "build_lance_assets",
    "build_lance_definitions",
    "build_maintenance_schedules",
    "build_manifest_sensor",
    "build_retry_sensor",
    "column_lineage",
    "evaluate_checks",
    "lance_data_changed",
    "last_published",
    "select_datasets",
    "version_materialization",
    "version_metadata",
]
