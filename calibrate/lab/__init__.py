"""Acceptance measured on real text with a real language model, on any machine and offline."""
