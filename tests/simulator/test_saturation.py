"""The verdict on saturation: silent on steady services, loud on overloaded ones, honest about short runs."""

import numpy as np
import pytest

from simulator.replica import simulate
from simulator.rng import Streams
from simulator.workload import poisson_arrivals
from tests.strategies import PLAIN, affine_costs, limits, workload

SERVICE_S = 0.1


def _verdict(load_fraction: float, *, requests: int = 4000, seed: int = 0):
    """One server with constant service, offered `load_fraction` of what it can serve."""
    arrivals = poisson_arrivals(requests, load_fraction / SERVICE_S, Streams(seed).get("arrivals"))
    result = simulate(
        workload(arrivals, 1, 1),
        costs=affine_costs(step_s=SERVICE_S),
        limits=limits(max_sequences=1),
        speculation=PLAIN,
        seed=seed,
    )
    return result.saturation


@pytest.mark.parametrize("load_fraction", [0.3, 0.7, 0.9])
def test_a_stable_queue_is_rarely_called_saturated(load_fraction):
    verdicts = [_verdict(load_fraction, seed=seed).saturated for seed in range(20)]
    assert sum(verdicts) <= 1


@pytest.mark.parametrize("load_fraction", [1.1, 1.5, 3.0])
def test_an_overloaded_queue_is_called_saturated_and_its_excess_is_measured(load_fraction):
    for seed in range(5):
        verdict = _verdict(load_fraction, seed=seed)
        assert verdict.saturated
        assert verdict.growth_fraction == pytest.approx(1 - 1 / load_fraction, abs=0.05)


def test_a_run_too_short_to_tell_is_not_called_saturated():
    verdict = _verdict(3.0, requests=20)
    assert not verdict.saturated
    assert not verdict.enough_data


def test_a_burst_at_one_instant_cannot_tell():
    result = simulate(
        workload(np.zeros(100), 1, 1),
        costs=affine_costs(step_s=SERVICE_S),
        limits=limits(max_sequences=1),
        speculation=PLAIN,
        seed=0,
    )
    assert not result.saturation.enough_data


def _shared_service(load_fraction: float, *, requests: int, latency_share: float):
    """Requests share steps; alone, one takes `latency_share` of the window in which they arrive."""
    capacity_per_s = 64 / (100 * SERVICE_S)
    rate_per_s = load_fraction * capacity_per_s
    window_s = requests / rate_per_s
    output = max(2, int(latency_share * window_s / SERVICE_S))
    result = simulate(
        workload(poisson_arrivals(requests, rate_per_s, Streams(1).get("arrivals")), 1, output),
        costs=affine_costs(step_s=SERVICE_S),
        limits=limits(),
        speculation=PLAIN,
        seed=1,
    )
    return result.saturation, result


def test_a_service_that_is_still_filling_up_is_not_called_saturated():
    # A third of the window passes before the first request leaves; nobody ever waits.
    verdict, result = _shared_service(0.05, requests=100, latency_share=0.33)
    assert np.nanmax(result.admitted_s - result.arrival_s) < 2 * SERVICE_S
    assert not verdict.saturated


def test_an_overload_shows_even_when_requests_take_most_of_the_run():
    verdict, result = _shared_service(4.0, requests=400, latency_share=0.5)
    assert np.nanmax(result.admitted_s - result.arrival_s) > 20 * SERVICE_S
    assert verdict.saturated


def test_requests_that_had_not_arrived_by_the_stop_are_no_backlog():
    arrivals = poisson_arrivals(400, 1.0, Streams(0).get("arrivals"))
    result = simulate(
        workload(arrivals, 1, 1),
        costs=affine_costs(step_s=SERVICE_S),
        limits=limits(max_sequences=1),
        speculation=PLAIN,
        seed=0,
        until_s=200.0,
    )
    assert result.counts.arrived < 400
    assert result.counts.running == result.counts.waiting == 0
    assert not result.saturation.saturated
