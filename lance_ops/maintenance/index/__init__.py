"""Index upkeep: building, refreshing, rebuilding and dropping."""
