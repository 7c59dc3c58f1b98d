"""What revision 2025-11-25 requires of a client, by the official suite, without a list of expected failures."""

from __future__ import annotations

import subprocess

import pytest

from tests.conformance import suite
from tests.servers import cache

SCORED = (
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
)
pytestmark = [pytest.mark.npm, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> suite.Report:
    """One run for all tests of this file; skipped where the suite cannot be had, a failure in CI."""
    try:
        suite.install()
    except (OSError, subprocess.SubprocessError) as error:
        cache.give_up(f"the conformance suite is not available: {error}")
    return suite.run(tmp_path_factory.mktemp("conformance"))


@pytest.mark.parametrize("scenario", SCORED)
def test_a_scored_scenario_passes(report: suite.Report, scenario: str) -> None:
    passed, failed = report.results.get(scenario, (0, 1))
    assert failed == 0, report.output
    assert passed > 0


def test_the_suite_is_content(report: suite.Report) -> None:
    assert report.exit_code == 0, report.output
