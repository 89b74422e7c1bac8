"""Survey of many datasets, least recently observed first."""
