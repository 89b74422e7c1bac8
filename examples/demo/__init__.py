"""The demo: the flights of New York 2013 through the whole maintenance loop."""
