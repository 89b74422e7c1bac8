"""Run: maintains many datasets at once, each by one at a time, within a deadline and a budget."""
