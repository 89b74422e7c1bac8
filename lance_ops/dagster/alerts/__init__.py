"""Alerts of Dagster: options, recipients, and the sensors that raise them.

Dagster itself does not report failed checks, which do not fail a run, and its failure sensors pass on the
error text only. The details of a failure are in the metadata of the failed step.
"""
