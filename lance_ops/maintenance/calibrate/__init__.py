"""Calibration: the cost model of compactions, measured where they run."""
