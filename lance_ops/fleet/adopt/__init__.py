"""Adoption: write a policy file for the datasets of a bucket, and list the worst of them."""
