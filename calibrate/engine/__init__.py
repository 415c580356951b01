"""The real engine: the only part of this project that imports torch, and only when one of its modules is used."""
