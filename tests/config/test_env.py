"""`${VAR}` in server entries."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebuddy_mcp_tools.config import HttpServer, StdioServer, expand, expand_server, placeholders
from codebuddy_mcp_tools.config.env import MAX_EXPANDED_CHARS
from codebuddy_mcp_tools.errors import ConfigError

VARIABLES = {"A": "1", "EMPTY": "", "B": "${A}", "_X9": "x"}


@pytest.mark.case("B49")
@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("${A}", "1"),
        ("a${A}b${A}", "a1b1"),
        ("${_X9}", "x"),
        ("${EMPTY}", ""),
        ("${EMPTY:-d}", ""),
        ("${NO:-d}", "d"),
        ("${NO:-}", ""),
        ("${NO:-${A}}", "1"),
        ("${NO:-a${NOR:-b${A}}c}d", "ab1cd"),
        ("${A:-${NO}}", "1"),
        ("${NO:-http://h:1/p?q=1}", "http://h:1/p?q=1"),
        ('${NO:-{"x":1}}', '{"x":1}'),
        ("${B}", "${A}"),
        ("$A", "$A"),
        ("$${A}", "$1"),
        ("pa$$word", "pa$$word"),
        ("${lower}", "${lower}"),
        ("${Mixed}", "${Mixed}"),
        ("${1A}", "${1A}"),
        ("${A-B}", "${A-B}"),
        ("${A:B}", "${A:B}"),
        ("${ A }", "${ A }"),
        ("${}", "${}"),
        ("${A", "${A"),
        ("${A:-x", "${A:-x"),
        ("${NO:-${lower}}", "${lower}"),
        ("}{${A}}{", "}{1}{"),
        ("${input:x}", "${input:x}"),
    ],
)
def test_only_the_two_documented_forms_are_filled_in(text, result):
    assert expand(text, VARIABLES).text == result


def test_a_missing_name_keeps_its_placeholder_and_is_listed_once():
    expansion = expand("${NO} ${A} ${NO} ${NOR} ${NO2:-${NO3}}", VARIABLES)
    assert expansion.text == "${NO} 1 ${NO} ${NOR} ${NO3}"
    assert expansion.missing == ("NO", "NOR", "NO3")
    assert expansion.used == ("A",)


def test_a_name_in_a_default_that_is_not_needed_is_not_missing():
    assert expand("${A:-${NO}}", VARIABLES).missing == ()


@pytest.mark.case("B49")
def test_command_args_env_values_url_and_header_values_are_filled_in_and_keys_are_not():
    stdio = StdioServer(
        command="${PY:-python}", args=("--d", "${DIR:-/tmp}"), env={"A": "${UNSET}", "${K}": "v"}, cwd="${DIR}"
    )
    expanded = expand_server(stdio, {"DIR": "/d"})
    assert isinstance(expanded.config, StdioServer)
    assert (expanded.config.command, expanded.config.args) == ("python", ("--d", "/d"))
    assert expanded.config.env == {"A": "${UNSET}", "${K}": "v"}
    assert expanded.config.cwd == "${DIR}"
    assert expanded.missing == ("UNSET",)
    http = HttpServer(url="${BASE:-http://127.0.0.1:1}/mcp", headers={"Authorization": "Bearer ${TOK}"})
    filled = expand_server(http, {"TOK": "t0ken"})
    assert isinstance(filled.config, HttpServer)
    assert (filled.config.url, filled.config.headers) == (
        "http://127.0.0.1:1/mcp",
        {"Authorization": "Bearer t0ken"},
    )


def test_the_process_environment_goes_before_the_servers_own_env():
    server = HttpServer(url="http://h/${A}/${B}/${C}", env={"A": "own", "B": "own-${A}", "C": "${C}"})
    expanded = expand_server(server, {"A": "process"})
    assert isinstance(expanded.config, HttpServer)
    assert expanded.config.url == "http://h/process/own-process/${C}"
    assert expanded.missing == ("C",)


def test_an_own_value_with_a_missing_variable_makes_what_uses_it_incomplete():
    server = HttpServer(url="http://h/", headers={"X": "${TOKEN}"}, env={"TOKEN": "${API_TOKEN}"})
    assert expand_server(server, {}).missing == ("API_TOKEN",)


def test_placeholders_of_other_hosts_in_a_url_or_header_count_as_missing():
    server = HttpServer(url="http://h/", headers={"X": "${input:token}", "Y": "${env:HOME}"})
    assert expand_server(server, {}).missing == ("input:token", "env:HOME")


def test_secrets_are_every_env_and_header_value_and_the_private_parts_of_the_url():
    server = HttpServer(
        url="http://u:PA%20SS@h/mcp?api_key=URLSEC&${TOK}",
        headers={"Authorization": "Bearer HDRSEC", "X": "${TOK}"},
        env={"E": "ENVSEC"},
    )
    secrets = expand_server(server, {"TOK": "TOKSEC"}).secrets
    assert {"PA%20SS", "PA SS", "URLSEC", "HDRSEC", "Bearer HDRSEC", "TOKSEC", "ENVSEC"} <= set(secrets)
    assert "" not in secrets


def test_a_secret_variable_in_an_argument_is_a_secret_and_a_plain_one_is_not():
    server = StdioServer(command="x", args=("--key", "${API_KEY}", "${HOME}"))
    assert expand_server(server, {"API_KEY": "k-123", "HOME": "/home/me"}).secrets == ("k-123",)


def test_variables_that_multiply_each_other_are_an_error_and_no_memory_is_filled():
    env = {f"V{i}": f"${{V{i + 1}}}" * 10 for i in range(20)} | {"V20": "x" * 10}
    with pytest.raises(ConfigError, match="more than"):
        expand_server(StdioServer(command="x", env=env), {})
    with pytest.raises(ConfigError):
        expand("${A}" * 1000, {"A": "y" * MAX_EXPANDED_CHARS})


def test_a_chain_of_thousands_of_variables_ends_in_a_clear_error_or_a_value():
    env = {f"V{i}": f"${{V{i + 1}}}" for i in range(5000)}
    with pytest.raises(ConfigError, match="too many"):
        expand_server(StdioServer(command="x", env=env), {})


def test_defaults_nested_without_end_are_read_in_one_pass():
    text = "${NO:-" * 50_000 + "}" * 50_000
    assert expand(text, {}).missing == ()


def test_placeholders_names_everything_that_a_text_could_need():
    assert placeholders("${A} ${B:-${C}} ${d} $E") == ("A", "B", "C")


names = st.from_regex(re.compile(r"[A-Z_][A-Z0-9_]{0,3}", re.ASCII), fullmatch=True)
plain = st.text(alphabet=st.characters(exclude_characters="${}"), max_size=6)


@st.composite
def templates(draw, depth=3):
    """A text with placeholders, and a function that says what it must become."""
    pieces = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.integers(0, 2 if depth else 1))
        if kind == 0:
            word = draw(plain)
            pieces.append((word, lambda env, word=word: word))
        elif kind == 1:
            name = draw(names)
            pieces.append((f"${{{name}}}", lambda env, name=name: env.get(name, f"${{{name}}}")))
        else:
            name = draw(names)
            inner, meaning = draw(templates(depth - 1))
            pieces.append(
                (
                    f"${{{name}:-{inner}}}",
                    lambda env, name=name, meaning=meaning: env[name] if name in env else meaning(env),
                )
            )
    return "".join(text for text, _ in pieces), lambda env: "".join(meaning(env) for _, meaning in pieces)


@given(templates(), st.dictionaries(names, st.text(max_size=5)))
def test_nested_placeholders_mean_what_they_say(template, env):
    text, meaning = template
    assert expand(text, env).text == meaning(env)


@given(st.text(alphabet="${}:-AB_ab1 ", max_size=40), st.dictionaries(st.sampled_from(["A", "B", "_"]), st.text()))
def test_any_text_expands_and_text_without_placeholders_stays(text, env):
    expansion = expand(text, env)
    assert set(expansion.used) <= set(env)
    assert not set(expansion.missing) & set(env)
    if not re.search(r"\$\{[A-Z_][A-Z0-9_]*(\}|:-)", text):
        assert expansion.text == text
