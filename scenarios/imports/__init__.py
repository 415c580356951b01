"""Readers of users' files and command lines, one file a format."""
