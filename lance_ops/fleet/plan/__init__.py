"""Plan of a fleet: next operations by priority within the budget, and reasons for the rest."""
