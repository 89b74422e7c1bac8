"""Vector indices: partitions around centroids (IVF), quantised or not, with graphs or not."""
