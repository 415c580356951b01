"""Is the service saturated? A statistical test of backlog growth, not a latency threshold."""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, sqrt

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

SAMPLES = 400
"""Points of the arrival window at which the backlog is read."""
WARM_UP_FRACTION = 0.25
"""Leading share of the window that is always left out: an empty service fills up before it is steady."""
WARM_UP_SOJOURNS = 3.0
"""It is left out for this many times the latency of the first requests, too."""
LONGEST_WARM_UP_FRACTION = 0.6
"""Beyond, the run is too short to judge the requests in the system; the queue before admission is judged instead."""
LEVEL = 0.01
"""One-sided level of the test."""
GROWTH_FLOOR_FRACTION = 0.01
"""A saturated service loses at least this share of its arrivals to the backlog; below, growth is called noise."""
MIN_REQUESTS = 50


@dataclass(frozen=True, slots=True)
class Saturation:
    """Verdict with its evidence.

    `growth_fraction` is the backlog's growth rate over the arrival rate: the share of the load that is not served.
    `p_value` is one-sided, from a slope with Newey-West standard errors. `enough_data` is False for runs too short
    to tell, which are then not called saturated.
    """

    saturated: bool
    growth_fraction: float
    p_value: float
    enough_data: bool


def saturation_test(
    arrival_s: FloatArray, admitted_s: FloatArray, finished_s: FloatArray, *, open_loop: bool
) -> Saturation:
    """Test the slope of the backlog over the arrivals, warm-up left out.

    The backlog is the number of requests in the system. Where requests take so long that the service is still
    filling up when the arrivals end, it is the number waiting for admission, which a service that keeps up
    does not build up even then.

    Parameters
    ----------
    arrival_s, admitted_s, finished_s : (n,)
        Of requests that were not refused. NaN: did not get so far by the stop.
    """
    arrived = np.argsort(arrival_s, kind="stable")[: np.count_nonzero(~np.isnan(arrival_s))]  # turns come unsorted
    arrivals: FloatArray = arrival_s[arrived]
    if not open_loop or len(arrivals) < MIN_REQUESTS:
        return Saturation(saturated=False, growth_fraction=0.0, p_value=1.0, enough_data=not open_loop)
    start_s, window_s = float(arrivals[0]), float(arrivals[-1] - arrivals[0])
    if window_s <= 0:
        return Saturation(saturated=False, growth_fraction=0.0, p_value=1.0, enough_data=False)
    early_s = _early_latency_s(arrivals, finished_s[arrived])
    warm_up_s = max(WARM_UP_FRACTION * window_s, WARM_UP_SOJOURNS * early_s)
    leaving_s = finished_s
    if warm_up_s > LONGEST_WARM_UP_FRACTION * window_s:
        warm_up_s, leaving_s = WARM_UP_FRACTION * window_s, admitted_s
    times_s = np.linspace(start_s + warm_up_s, start_s + window_s, SAMPLES)
    left: FloatArray = np.sort(leaving_s[~np.isnan(leaving_s)])
    backlog = np.searchsorted(arrivals, times_s, side="right") - np.searchsorted(left, times_s, side="right")
    slope_per_s, standard_error = _slope_newey_west(times_s, np.asarray(backlog, dtype=np.float64))
    p_value = _one_sided_p(slope_per_s, standard_error)
    growth_fraction = slope_per_s * window_s / len(arrivals)
    saturated = p_value < LEVEL and growth_fraction > GROWTH_FLOOR_FRACTION
    return Saturation(saturated=saturated, growth_fraction=growth_fraction, p_value=p_value, enough_data=True)


def _early_latency_s(arrivals: FloatArray, finishes: FloatArray) -> float:
    """Median latency of the first tenth of the requests; infinite where most of them did not finish."""
    early = slice(0, max(1, len(arrivals) // 10))
    latencies_s = np.where(np.isnan(finishes[early]), np.inf, finishes[early] - arrivals[early])
    return float(np.median(latencies_s))


def _one_sided_p(slope_per_s: float, standard_error: float) -> float:
    if standard_error == 0.0:
        return 0.0 if slope_per_s > 0 else 1.0
    return 0.5 * erfc(slope_per_s / standard_error / sqrt(2.0))


def _slope_newey_west(times_s: FloatArray, values: FloatArray) -> tuple[float, float]:
    """Least-squares slope and its standard error under autocorrelation.

    Newey and West, Econometrica 55 (1987), with a bandwidth of an eighth of the samples: queues forget slowly.
    """
    centred = times_s - times_s.mean()
    spread = float(centred @ centred)
    slope = float(centred @ values) / spread
    scores = centred * (values - values.mean() - slope * centred)
    bandwidth = len(values) // 8
    variance = float(scores @ scores)
    for lag in range(1, bandwidth + 1):
        variance += 2.0 * (1.0 - lag / (bandwidth + 1)) * float(scores[lag:] @ scores[:-lag])
    return slope, float(np.sqrt(max(variance, 0.0))) / spread
