"""Object stores: buckets through obstore, their options, credentials and failures."""
