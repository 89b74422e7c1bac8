"""MemWAL: rows of log writers that are not in the table yet, in flushed generations and log entries."""
