"""Full-zip pages: large values, each behind its own levels and length."""
