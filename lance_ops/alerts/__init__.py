"""Alerts: their values, the rules that choose recipients, and their delivery, each one once.

The fleet and the plugin for Dagster find out what is wrong; this package sends it.
"""
