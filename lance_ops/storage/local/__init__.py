"""Files of this machine: mapped reads, and writes that survive a crash."""
