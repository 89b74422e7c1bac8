"""Report: one static HTML file on a fleet, which needs no network."""
