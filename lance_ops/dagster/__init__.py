"""The Dagster integration: assets, jobs, sensors, checks and alerts for Lance datasets."""
