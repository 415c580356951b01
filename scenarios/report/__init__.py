"""What a person reads: text on a terminal, and files."""
