"""Jobs: which keys are committed, where that is kept, and what their runs left."""
