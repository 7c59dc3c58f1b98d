"""The vocabulary: what is in its file, and how it is read."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files

import pytest

from codebuddy_mcp_tools.tools.thesaurus import BACKWARD, FORWARD, Thesaurus, parsed, thesaurus
from codebuddy_mcp_tools.tools.tokens import terms

TEXT = """
# comment
[stop]
the of  # also a comment
[light]
make
[same]
repo repository
[near]
delete: remove drop
[phrases]
sign in: login
[verbs]
delete: remove delete
create: make
create: open
start: open
"""


@pytest.fixture(scope="module")
def small() -> Thesaurus:
    return parsed(TEXT)


def test_words_of_one_line_stand_for_each_other(small: Thesaurus) -> None:
    assert small.others["repo"] == ((terms("repository")[0], FORWARD),)
    assert small.others[terms("repository")[0]] == (("repo", FORWARD),)


def test_what_is_near_counts_less_the_other_way(small: Thesaurus) -> None:
    assert dict(small.others[terms("delete")[0]]) == {terms("remove")[0]: FORWARD, "drop": FORWARD}
    assert small.others["drop"] == ((terms("delete")[0], BACKWARD),)


def test_a_verb_may_be_of_several_kinds(small: Thesaurus) -> None:
    assert small.verbs["open"] == {"create", "start"}
    assert small.verbs["make"] == {"create"}


def test_stop_words_light_words_and_phrases_are_stems(small: Thesaurus) -> None:
    assert small.stop == {"the", "of"}
    assert small.light == {"make"}
    assert small.phrases == {("sign", "in"): ("login",)}


def test_the_file_of_the_package_is_sound() -> None:
    text = files("codebuddy_mcp_tools.tools").joinpath("vocabulary.txt").read_text(encoding="utf-8")
    sections = [line.split("]")[0] + "]" for line in text.splitlines() if line.startswith("[")]
    assert sections == ["[stop]", "[light]", "[same]", "[near]", "[phrases]", "[verbs]"]
    near = text.split("[near]")[1].split("[phrases]")[0].splitlines()[1:]
    heads = [line.split(":")[0] for line in near if line and not line.startswith("#")]
    assert len(heads) == len(set(heads)), "one line a word"
    assert all(line == line.lower() for line in near if not line.startswith("#"))
    assert max(map(len, text.splitlines())) <= 120


def test_a_word_never_stands_for_itself_and_weights_are_shares() -> None:
    for word, others in thesaurus().others.items():
        assert word not in dict(others)
        assert all(0 < weight < 1 for _, weight in others)


def test_importing_the_package_does_not_read_the_vocabulary() -> None:
    program = (
        "import codebuddy_mcp_tools.tools.catalog, codebuddy_mcp_tools.tools.thesaurus as t;"
        "print(t.thesaurus.cache_info().currsize)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
