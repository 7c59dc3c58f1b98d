"""The circuit breaker: what opens it, who may probe, what closes it."""

from __future__ import annotations

import threading

import pytest

from codebuddy_mcp_tools.client import CircuitBreaker
from codebuddy_mcp_tools.errors import CircuitOpenError
from codebuddy_mcp_tools.types import CircuitState
from tests.client.fake import Clock


def opened(clock: Clock, **options: float) -> CircuitBreaker:
    breaker = CircuitBreaker(clock=clock, name="s", **options)  # type: ignore[arg-type]
    for _ in range(breaker.threshold):
        breaker.admit().failure()
    return breaker


def test_three_failures_in_a_row_open_it() -> None:
    breaker = CircuitBreaker(clock=Clock())
    breaker.admit().failure()
    breaker.admit().failure()
    assert breaker.state is CircuitState.CLOSED
    breaker.admit().failure()
    assert breaker.state is CircuitState.OPEN


def test_an_answer_in_between_starts_the_count_again() -> None:
    breaker = CircuitBreaker(clock=Clock())
    for _ in range(5):
        breaker.admit().failure()
        breaker.admit().failure()
        breaker.admit().success()
    assert breaker.state is CircuitState.CLOSED
    assert breaker.failures == 0


def test_an_open_breaker_refuses_at_once_and_says_for_how_long() -> None:
    clock = Clock()
    breaker = opened(clock, cooldown=300.0)
    clock.advance(100)
    with pytest.raises(CircuitOpenError) as caught:
        breaker.admit()
    assert caught.value.server == "s"
    assert caught.value.retry_after == pytest.approx(200)
    assert breaker.retry_after == pytest.approx(200)
    assert not breaker.admits


def test_after_the_cooldown_one_probe_is_let_through_and_only_one() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.advance(300)
    probe = breaker.admit()
    assert probe.is_probe
    assert breaker.state is CircuitState.HALF_OPEN
    with pytest.raises(CircuitOpenError) as caught:
        breaker.admit()
    assert caught.value.retry_after == 0


def test_many_threads_get_one_probe_between_them() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.advance(300)
    barrier, probes = threading.Barrier(8), []

    def ask() -> None:
        barrier.wait()
        try:
            probes.append(breaker.admit())
        except CircuitOpenError:
            return

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(probes) == 1


def test_a_probe_that_succeeds_closes_it() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.advance(300)
    breaker.admit().success()
    assert breaker.state is CircuitState.CLOSED
    assert breaker.retry_after is None
    assert not breaker.admit().is_probe


def test_a_probe_that_fails_opens_it_for_another_cooldown() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.advance(301)
    breaker.admit().failure()
    assert breaker.state is CircuitState.OPEN
    assert breaker.retry_after == pytest.approx(300)


def test_a_cancelled_probe_frees_its_place() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.advance(300)
    breaker.admit().release()
    assert breaker.state is CircuitState.HALF_OPEN
    assert breaker.admit().is_probe


def test_a_permit_counts_once() -> None:
    breaker = CircuitBreaker(clock=Clock())
    permit = breaker.admit()
    permit.failure()
    permit.failure()
    permit.success()
    assert breaker.failures == 1


def test_calls_from_before_it_opened_say_nothing_about_now() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock=clock)
    old = [breaker.admit() for _ in range(6)]
    for permit in old[:3]:
        permit.failure()
    old[3].success()
    assert breaker.state is CircuitState.OPEN
    clock.advance(300)
    probe = breaker.admit()
    old[4].failure()
    old[5].success()
    assert breaker.state is CircuitState.HALF_OPEN
    probe.success()
    assert breaker.state is CircuitState.CLOSED


def test_reset_closes_it_by_hand() -> None:
    breaker = opened(Clock())
    breaker.reset()
    assert breaker.state is CircuitState.CLOSED
    assert breaker.failures == 0
    breaker.reset()


def test_every_change_of_state_is_told_once() -> None:
    clock, seen = Clock(), []
    breaker = CircuitBreaker(clock=clock, threshold=1, on_change=seen.append)
    breaker.admit().success()
    breaker.admit().failure()
    clock.advance(300)
    breaker.admit().success()
    assert seen == [CircuitState.OPEN, CircuitState.HALF_OPEN, CircuitState.CLOSED]


def test_a_threshold_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="threshold"):
        CircuitBreaker(threshold=0)
