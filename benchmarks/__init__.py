"""Speed against the official library, measured in pairs in one run: ratios, never a verdict."""
