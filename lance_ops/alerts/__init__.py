"""Alerts: values, rules that choose recipients, and delivery, once each.

The fleet and the Dagster plugin detect the problems; this package sends the messages.
"""
