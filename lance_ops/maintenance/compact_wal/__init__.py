"""Compaction of MemWAL: flushed generations are folded into the table, and removed after their readers."""
