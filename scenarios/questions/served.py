"""A run in which the engine refuses everything answers no question."""

from roofline.errors import InvalidInput
from simulator.limits import EngineLimits
from simulator.result import Result


def check_served(result: Result, limits: EngineLimits) -> None:
    """Say so in one sentence; raises `InvalidInput` where every request was refused."""
    requests = len(result.arrival_s)
    if result.counts.refused < requests:
        return
    longest = f"{limits.max_context_tokens:,}" if limits.max_context_tokens else "any number of"
    raise InvalidInput(
        f"the engine refuses all {requests:,} requests: it takes {longest} tokens of context and its cache holds "
        f"{limits.kv_blocks * limits.block_tokens:,}; shorten the requests or give the cache more memory"
    )
