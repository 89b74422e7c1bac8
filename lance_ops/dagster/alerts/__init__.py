"""Alerts: what they say, who is told, and the sensors that raise them.

Dagster itself is silent about checks, which do not fail a run, and its failure sensors pass on a text at
best. What a run knows about its failure travels in the metadata of the failed step.
"""
