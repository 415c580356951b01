"""Many scenarios at once: axes, designs, a dataset on disk that survives its process, and executors."""
