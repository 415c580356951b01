"""Errors a caller can act on: each message names the field, the value that came, and what to do."""


class SpecdecError(ValueError):
    """Base of every error raised for wrong input; its text is one sentence for the user."""


class InvalidInput(SpecdecError):
    """A field is missing, malformed or out of range."""


class UnsupportedModel(SpecdecError):
    """The model has a feature whose cost is not computed; the message names the feature."""


class UnknownName(SpecdecError):
    """A name is not in the catalogue; the message lists the nearest names."""


class DoesNotFit(SpecdecError):
    """Weights and one sequence do not fit the memory; the message carries the byte account."""


class OutsideDomain(SpecdecError):
    """A question lies outside the measured domain of a calibration."""
