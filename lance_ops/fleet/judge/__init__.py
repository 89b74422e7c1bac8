"""Judgement: the verdict on a dataset, what its due operations take, and what they are worth."""
