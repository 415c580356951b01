"""Acceptance of a real model on real text: which text, which model, where results go, what is said about them."""
