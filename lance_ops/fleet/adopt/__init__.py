"""Adoption: from the address of a bucket to a policy file and the worst datasets in it."""
