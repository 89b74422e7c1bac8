"""Asset checks: what each examines, and what Dagster has on record of them."""
