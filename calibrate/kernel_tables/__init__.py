"""Calibrations of GPUs nobody here owns, from the measured kernel tables of the package aiconfigurator-core."""
