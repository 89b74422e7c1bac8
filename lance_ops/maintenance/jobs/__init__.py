"""Durable records of a job: plan, results of tasks, drivers, and the end of the job."""
