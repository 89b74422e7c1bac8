"""Manifest sensor: finds new versions of many datasets, publishes them, and starts downstream jobs."""
