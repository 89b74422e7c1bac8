"""Row lineage of fragments: row ids and row versions, read and written wherever a sequence may lie."""
