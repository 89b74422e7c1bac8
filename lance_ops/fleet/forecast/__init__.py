"""Forecast of due maintenance, use of the budget, and errors of estimates."""
