"""Row lineage of fragments: row ids and row versions in all storage locations."""
