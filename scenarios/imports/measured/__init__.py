"""Readers of what users have measured: benchmark files, metrics dumps, engine logs and traces, in one vocabulary."""
