"""Durable records of a job: its plan, what its tasks finished, who is at work, and how all of that ends."""
