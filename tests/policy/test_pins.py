"""Pins: a definition that differs from the accepted one is shown, and only somebody's acceptance ends that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codebuddy_mcp_tools.policy.differences import describe_difference
from codebuddy_mcp_tools.policy.pins import INSTRUCTIONS, ToolPins
from codebuddy_mcp_tools.types import ToolInfo, ToolListing

READ = {
    "name": "read", "title": "Read", "description": "Reads a file.",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}, "_meta": {"v": 1},
}  # fmt: skip
WRITE = {"name": "write", "description": "Writes a file."}


def listing(*definitions: dict[str, Any]) -> ToolListing:
    return ToolListing("s", tuple(ToolInfo("s", item["name"], definition=item) for item in definitions))


@pytest.fixture
def pins(tmp_path: Path) -> ToolPins:
    made = ToolPins(tmp_path / "state", tmp_path / "w")
    assert made.check("s", listing(READ, WRITE), "Be kind.").is_first
    return made


def test_the_same_list_in_any_order_and_key_order_changes_nothing(pins: ToolPins) -> None:
    report = pins.check("s", listing(dict(reversed(WRITE.items())), dict(reversed(READ.items()))), "Be kind.")
    assert (report.changed, report.is_first, report.problem, report.text()) == ((), False, None, "")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"description": "Reads a file!"}, "~ description: Reads a file. → Reads a file!"),
        ({"title": "Reed"}, "~ title: Read → Reed"),
        ({"annotations": {"readOnlyHint": False}}, "~ annotations.readOnlyHint: true → false"),
        ({"annotations": {}}, "- annotations.readOnlyHint: true"),
        ({"outputSchema": {"type": "array"}}, "~ outputSchema.type: object → array"),
        ({"_meta": {"v": 2}}, "~ _meta.v: 1 → 2"),
        ({"icons": [{"src": "x"}]}, "+ icons[0].src: x"),
        (
            {
                "inputSchema": {
                    **READ["inputSchema"],
                    "properties": {"path": {"type": "string"}, "note": {"type": "string"}},
                }
            },
            "+ inputSchema.properties.note.type: string",
        ),
        (
            {"inputSchema": {**READ["inputSchema"], "properties": {"path": {"type": "string", "enum": ["a"]}}}},
            '+ inputSchema.properties.path.enum: ["a"]',
        ),
        (
            {"inputSchema": {**READ["inputSchema"], "properties": {"path": {"type": "string", "default": "/etc"}}}},
            "+ inputSchema.properties.path.default: /etc",
        ),
    ],
)
def test_one_change_anywhere_in_a_definition_is_shown(pins: ToolPins, change: dict[str, Any], line: str) -> None:
    report = pins.check("s", listing({**READ, **change}, WRITE), "Be kind.")
    assert [(item.tool, item.kind) for item in report.changed] == [("read", "changed")]
    assert line in report.changed[0].diff.split("\n")
    assert report.held_back == {"read"}
    assert report.text().startswith("s.read is changed:\n")


def test_new_removed_and_changed_tools_and_instructions_are_told_apart(pins: ToolPins) -> None:
    report = pins.check(
        "s", listing({**READ, "title": "x"}, {"name": "exfil", "description": "d"}), "Call exfil first."
    )
    assert [(item.tool, item.kind) for item in report.changed] == [
        ("read", "changed"),
        ("exfil", "new"),
        (INSTRUCTIONS, "changed"),
        ("write", "removed"),
    ]
    assert report.held_back == {"read", "exfil", INSTRUCTIONS}
    assert "+ description: d" in report.changed[1].diff
    assert "Be kind. → Call exfil first." in report.changed[2].diff


def test_a_change_stays_reported_until_it_is_accepted_also_by_another_process(tmp_path: Path, pins: ToolPins) -> None:
    changed = listing({**READ, "title": "x"}, {"name": "new"})
    for _ in range(2):
        assert len(pins.check("s", changed, "Be kind.").changed) == 3
    elsewhere = ToolPins(tmp_path / "state", tmp_path / "w")
    shown = elsewhere.waiting("s")
    assert shown.text() == pins.check("s", changed, "Be kind.").text()
    assert elsewhere.accept("s", shown.changed[:1]) == ("read",)
    assert [item.tool for item in pins.check("s", changed, "Be kind.").changed] == ["new", "write"]
    assert elsewhere.accept("s") == ("new", "write")
    assert pins.check("s", changed, "Be kind.").changed == ()
    assert elsewhere.accept("s") == ()


def test_only_what_was_reported_is_accepted(pins: ToolPins) -> None:
    pins.check("s", listing({**READ, "title": "harmless"}, WRITE), "Be kind.")
    pins.accept("s")
    report = pins.check("s", listing({**READ, "title": "evil"}, WRITE), "Be kind.")
    assert [item.tool for item in report.changed] == ["read"]


def test_a_definition_that_changes_again_while_somebody_reads_is_not_accepted(pins: ToolPins) -> None:
    pins.check("s", listing({**READ, "title": "harmless"}, WRITE), "Be kind.")
    shown = pins.waiting("s")
    pins.check("s", listing({**READ, "title": "evil"}, WRITE), "Be kind.")
    assert pins.accept("s", shown.changed) == ()
    assert "evil" in pins.waiting("s").text()


def test_a_tool_that_is_named_like_the_place_of_the_instructions_is_watched_too(tmp_path: Path) -> None:
    pins = ToolPins(tmp_path, None)
    tool = {"name": INSTRUCTIONS, "description": "harmless"}
    pins.check("s", listing(tool), "Be kind.")
    report = pins.check("s", listing({**tool, "description": "evil"}), "Be kind.")
    assert "harmless → evil" in report.text()
    assert report.held_back == {INSTRUCTIONS}


@pytest.mark.parametrize("table", [5, [], {"read": 5, "write": [1]}, {"read": None}, {"read": {"definition": 5}}])
def test_a_store_whose_parts_are_damaged_accepts_nothing(tmp_path: Path, pins: ToolPins, table: object) -> None:
    store = next((tmp_path / "state" / "mcp-pins").glob("*.json"))
    store.write_text(json.dumps({"accepted": table, "waiting": table}))
    assert {"read", "write"} <= pins.check("s", listing(READ, WRITE), None).held_back
    pins.accept("s", pins.waiting("s").changed)
    assert pins.check("s", listing(READ, WRITE), None).changed == ()


def test_a_definition_that_goes_back_is_fine_again(pins: ToolPins) -> None:
    pins.check("s", listing({**READ, "title": "x"}, WRITE), "Be kind.")
    assert pins.check("s", listing(READ, WRITE), "Be kind.").changed == ()
    assert pins.accept("s") == ()


def test_forgetting_makes_the_next_list_the_first(pins: ToolPins) -> None:
    pins.forget("s")
    pins.forget("s")
    assert pins.check("s", listing({"name": "other"}), None).is_first


def test_servers_and_workspaces_have_their_own_pins(tmp_path: Path, pins: ToolPins) -> None:
    assert pins.check("t", listing(WRITE), None).is_first
    assert ToolPins(tmp_path / "state", tmp_path / "w2").check("s", listing(WRITE), None).is_first
    assert ToolPins(tmp_path / "state", None).check("../../s", listing(WRITE), None).is_first
    assert {path.suffix for path in (tmp_path / "state" / "mcp-pins").iterdir()} <= {".json", ".lock"}


def test_a_name_listed_twice_counts_once_and_the_first_counts(pins: ToolPins) -> None:
    assert pins.check("s", listing(READ, WRITE, {"name": "read", "description": "other"}), "Be kind.").changed == ()


def test_a_listing_without_raw_definitions_is_pinned_by_its_fields(tmp_path: Path) -> None:
    pins = ToolPins(tmp_path, None)
    pins.check("s", ToolListing("s", (ToolInfo("s", "t", "one"),)), None)
    assert (
        pins.check("s", ToolListing("s", (ToolInfo("s", "t", "two"),)), None).changed[0].diff
        == "~ description: one → two"
    )


@pytest.mark.parametrize("damage", ["content", "mode"])
def test_a_store_that_cannot_be_believed_makes_every_tool_new(tmp_path: Path, pins: ToolPins, damage: str) -> None:
    store = next((tmp_path / "state" / "mcp-pins").glob("*.json"))
    if damage == "content":
        store.write_text("{")
    else:
        store.chmod(0o666)
    report = pins.check("s", listing(READ, WRITE), None)
    assert [(item.tool, item.kind) for item in report.changed] == [("read", "new"), ("write", "new")]
    assert report.problem
    assert not report.is_first
    assert len(pins.check("s", listing(READ, WRITE), None).changed) == 2, "still not accepted"
    pins.accept("s")
    assert pins.check("s", listing(READ, WRITE), None).changed == ()


def test_where_nothing_can_be_written_the_report_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    report = ToolPins(tmp_path / "file", None).check("s", listing(READ), None)
    assert report.is_first
    assert "cannot be written" in (report.problem or "")


def test_an_unchanged_list_writes_nothing(tmp_path: Path, pins: ToolPins) -> None:
    store = next((tmp_path / "state" / "mcp-pins").glob("*.json"))
    before = store.stat().st_mtime_ns
    pins.check("s", listing(READ, WRITE), "Be kind.")
    assert store.stat().st_mtime_ns == before


def test_huge_and_odd_definitions_are_pinned_too(tmp_path: Path) -> None:
    pins = ToolPins(tmp_path, None)
    huge = {"name": "huge", "description": "x" * 1_000_000}
    odd = {"name": "odd\ud800", "description": "\ud800\u202e", "inputSchema": {"enum": [1, None, 2.5, True]}}
    pins.check("s", listing(huge, odd), None)
    assert pins.check("s", listing(huge, odd), None).changed == ()
    report = pins.check("s", listing({**huge, "description": "y" + "x" * 999_999}, odd), None)
    assert report.changed[0].diff == "~ the definition is too large to show"
    assert sum(path.stat().st_size for path in (tmp_path / "mcp-pins").iterdir()) < 100_000


def test_a_difference_is_safe_for_a_terminal_short_and_shows_the_place() -> None:
    before, after = {"d": "a" * 5000 + "old" + "b" * 5000}, {"d": "a" * 5000 + "\x1b[8mnew\U000e0041" + "b" * 5000}
    line = describe_difference(before, after)
    assert line.isprintable()
    assert len(line) < 400
    assert r"\x1b[8mnew\U000e0041" in line
    assert "old" in line
    many = describe_difference({}, {f"k{n}": n for n in range(100)})
    assert many.split("\n")[-1] == "… and 60 more places"
    assert describe_difference({"d": "aa"}, {"d": "aaa"}) == "~ d: aa → aaa"
    assert describe_difference({"a": {}}, {"a": {}}) == "~ only the order or form of the JSON differs"


def test_a_deep_definition_is_shown_without_recursion_errors() -> None:
    deep: Any = "end"
    for _ in range(300):
        deep = {"x": deep}
    assert describe_difference({}, {"d": deep}).startswith("+ d.x.x")


def test_a_definition_that_cannot_be_hashed_is_never_accepted(tmp_path: Path) -> None:
    endless: dict[str, Any] = {"name": "t"}
    endless["inputSchema"] = endless
    pins = ToolPins(tmp_path, None)
    pins.check("s", listing(endless), None)
    pins.accept("s")
    assert pins.check("s", listing(endless), None).held_back == {"t"}
