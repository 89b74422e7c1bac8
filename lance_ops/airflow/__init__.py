"""Airflow's side: a connection to stores, operators for operations and fleets, events of new versions."""
