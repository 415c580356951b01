"""One file a family of rules; a rule is a frozen object with one method."""
