"""Hypothesis runs the same examples every time: a red test is red for everyone."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "specdec", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("specdec")
