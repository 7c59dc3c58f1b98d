"""The attempts of one connection cycle, and the waits between them (tenacity).

Policy: one attempt for each configured delay; after the n-th comes the n-th wait, by default 1000 · 2^(n-1) ms, never
more than 30 s. A server's Retry-After makes a wait longer; one that is longer than the cap ends the cycle, as does a
failure that trying again cannot help or would only wait for again (a deadline that passed).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from codebuddy_mcp_tools.client.transport import ChannelError

LONGEST_WAIT = 30.0

Sleep = Callable[[float], Awaitable[None]]


def connection_attempts(delays: Sequence[float], *, sleep: Sleep, attempts: int | None = None) -> AsyncRetrying:
    """An iterator of attempts, as tenacity's `AsyncRetrying`; the last failure is raised as it is.

    Args:
        delays: seconds after the first, second … attempt; their number is the number of attempts (at least one).
        sleep: waits; a parameter for tests.
        attempts: fewer attempts than that.
    """
    limit = attempts or max(1, len(delays))

    def wait(state: RetryCallState) -> float:
        failure = state.outcome.exception() if state.outcome else None
        asked = failure.fault.retry_after if isinstance(failure, ChannelError) else None
        # min() with the last delay: a cycle that was given more attempts than delays keeps the longest.
        delay = delays[min(state.attempt_number, len(delays)) - 1] if delays else 0.0
        return min(max(delay, asked or 0.0), LONGEST_WAIT)

    return AsyncRetrying(
        stop=stop_after_attempt(limit),
        wait=wait,
        retry=retry_if_exception(_may_help),
        sleep=sleep,
        reraise=True,
    )


def _may_help(error: BaseException) -> bool:
    if not isinstance(error, ChannelError):
        return False
    fault = error.fault
    return fault.retryable and not fault.timed_out and (fault.retry_after or 0.0) <= LONGEST_WAIT
