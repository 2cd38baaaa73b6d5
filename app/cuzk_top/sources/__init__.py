"""Where records come from: each module yields the same batches."""
