"""Plan: what is done next in a fleet, in which order, within which budget, and what is left and why."""
