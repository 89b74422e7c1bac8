"""Asset checks: definitions, evaluation, and recorded results."""
