"""The drawing of a lineage: colours by kind, marks in words, nothing that the component would take for markup."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from stored_results import stored_result

from engine.declare.datasets import BUILT_IN_TYPES, Report, VolumeDelta
from engine.lineage import REGISTERED, Lineage, Link, State, Verdicts, build
from ui.lineage.drawing import (
    MARKS,
    frame_size,
    kind_of,
    kinds_of,
    label_lines,
    layout,
    title_lines,
    vis_edges,
    vis_nodes,
    vis_options,
)
from ui.lineage.judging import Judged
from ui.lineage.page import item_rows, names_of, problems_notice, shown_text, without_older
from ui.shell.theme import STATE_COLOURS, Mode

KINDS = kinds_of(BUILT_IN_TYPES)


def chain(*names: str) -> Lineage:
    """Each made from the one before; all by one node."""
    results = [
        stored_result(
            name, node="n", created=float(at), identity={"inputs": {"in": f"{names[at - 1]}.out"} if at else {}},
            outputs={"out": Report(uri=f"/out/{name}")},
        )
        for at, name in enumerate(names)
    ]  # fmt: skip
    return Lineage(*build(results))


@pytest.mark.parametrize("mode", get_args(Mode))
def test_nothing_a_person_wrote_reaches_the_component_as_markup(mode: Mode) -> None:
    evil = "<img src=x onerror=alert(1)>"
    found = chain("a", evil, "z" * 300)
    drawn = vis_nodes(found, layout(found, Verdicts(), KINDS), Verdicts(), KINDS, None, mode)
    for node in drawn:
        # The component sets `title` as HTML, and opens `div.innerHTML` as an address on a double click.
        assert "title" not in node
        assert node["div"] == {"innerHTML": ""}
        assert all(len(line) <= 18 for line in node["label"].splitlines())
        assert len(node["label"].splitlines()) <= 5
        assert [edge["from"] for edge in vis_edges(found, mode) if edge["to"] == node["id"]] in (
            [],
            [*found.sources[node["id"]]],
        )
    assert vis_options(mode)["nodes"]["font"]["multi"] is False
    json.dumps([drawn, vis_edges(found, mode), vis_options(mode)])


@pytest.mark.parametrize(
    ("title", "lines"),
    [
        ("scans", ["scans"]),
        ("", ["-"]),
        ("Train ResNet-18", ["Train ResNet-18"]),
        ("patches, version 2", ["patches, version\u00a02"]),
        ("predictions, version 2", ["predictions,", "version\u00a02"]),
        ("validation of Train, validate, test", ["validation of", "Train, validate,", "test"]),
        (
            "validation of Train, validate, test and more, version 12",
            ["validation of", "Train, validate,…", "version\u00a012"],
        ),
        (
            "a very long name of a folder that has no version",
            ["a very long name", "of a folder that", "has no version"],
        ),
        (
            "a very long name of a folder that has none at all",
            ["a very long name", "of a folder that", "has none at all"],
        ),
        (
            "one of the very longest names that a node can have",
            ["one of the very", "longest names that", "a node can have"],
        ),
        (
            "one of the very longest names that any node could have",
            ["one of the very", "longest names that", "any node could…"],
        ),
        # Wide letters: a line that is too long would be broken again, and its box is no higher.
        ("TCGA LUNG CT SCANS", ["TCGA LUNG CT", "SCANS"]),
        ("WWWWWWWWWWWWWWWWWW", ["WWWWWWWWW", "WWWWWWWWW"]),
        ("肺" * 12, ["肺" * 9, "肺" * 3]),
    ],
)
def test_a_title_has_three_lines_and_keeps_its_version(title: str, lines: list[str]) -> None:
    assert title_lines(title) == lines


def test_the_state_is_written_in_words_and_the_chosen_item_stands_out() -> None:
    found = chain("a", "b", "c")
    verdicts = Verdicts(frozenset("c"), {"b": "parameter x changed"})
    drawn = vis_nodes(found, layout(found, verdicts, KINDS), verdicts, KINDS, found.order[2], "light")
    by_title = {found.items[node["id"]].title: node for node in drawn}
    assert {title: node["label"].split("\n", 1)[1] for title, node in by_title.items()} == {
        "a": "Report · older", "b": "Report · ⚠ stale", "c": "Report\n✓ current",
    }  # fmt: skip
    assert by_title["b"]["color"]["border"] == STATE_COLOURS["light"]["waiting"]
    assert [by_title[title]["borderWidth"] for title in "abc"] == [1, 2, 4]
    assert by_title["a"]["x"] < by_title["b"]["x"] < by_title["c"]["x"]
    assert set(MARKS) == set(get_args(State))
    assert label_lines(KINDS[REGISTERED], "unknown") == "Registered model"
    assert label_lines(KINDS[REGISTERED], "stale") == "Registered model\n⚠ stale"


def test_a_link_past_a_level_is_drawn_through_its_passage_with_one_arrow() -> None:
    three = chain("a", "b", "c")
    a, b, c = three.order
    found = Lineage(three.items, (*three.links, Link(a, c, "n")))
    nodes = vis_nodes(found, layout(found, Verdicts(), KINDS), Verdicts(), KINDS, None, "light")
    unseen = [node["id"] for node in nodes if node["id"] not in found.items]
    assert len(unseen) == 2
    edges = [(edge["from"], edge["to"], "arrows" not in edge) for edge in vis_edges(found, "light")]
    assert sorted(edges) == sorted(
        [(a, b, True), (b, c, True), (a, unseen[0], False), (unseen[0], unseen[1], False), (unseen[1], c, True)]
    )


def test_a_kind_that_is_not_installed_has_a_name_and_a_colour() -> None:
    item = next(iter(chain("a").items.values()))
    assert kind_of(item, KINDS).title == "Report"
    assert kind_of(item, {k: v for k, v in KINDS.items() if k != "Report"}).title == "Report"
    assert set(KINDS) > {VolumeDelta.__name__, REGISTERED}


def test_the_frame_fits_each_box_at_its_own_size() -> None:
    def size(found: Lineage) -> tuple[int, int]:
        return frame_size(layout(found, Verdicts(), KINDS))

    nine, wide = chain(*"abcdefghi"), Lineage({n: i for name in "abcdefghi" for n, i in chain(name).items.items()})
    assert size(nine)[0] > 9 * 140
    assert size(nine)[1] == size(chain("a"))[1] < size(wide)[1]
    assert size(wide)[0] == size(chain("a"))[0]
    assert size(Lineage({}))[1] > 0


def test_older_versions_are_hidden_unless_something_of_today_comes_from_them() -> None:
    def titles(found: Lineage, verdicts: Verdicts) -> set[str]:
        return {item.title for item in without_older(found, Judged(verdicts)).items.values()}

    apart = Lineage(chain("old", "new").items)
    assert titles(apart, Verdicts()) == {"new"}, "the newest of the node, which belongs to no plan"
    assert titles(apart, Verdicts(frozenset(["old"]))) == {"old", "new"}
    assert titles(chain("a", "b", "c"), Verdicts(frozenset("c"))) == {"a", "b", "c"}
    assert len(without_older(Lineage({}), Judged()).items) == 0


def test_the_number_shown_is_written() -> None:
    assert shown_text(120, 800, 1000) == "the newest 120 of 800 items"
    assert shown_text(8, 8, 1000) == "8 of 1,000 items"
    assert shown_text(8, 8, 8) == "8 items"


def test_each_item_has_a_name_of_its_own_in_the_list() -> None:
    """Streamlit knows the entries of a list by their words."""
    read = [("/a/scans", "1" * 16), ("/b/scans", "2" * 16), ("/b/scans", "3" * 16)]
    results = [
        stored_result(
            f"r{at}", node="n", created=1e9 + 3600 * at, outputs={"out": Report(uri=f"/out/{at}")},
            identity={"params": {"folder": place}, "files": {"folder": digest}},
        )
        for at, (place, digest) in enumerate(read)
    ]  # fmt: skip
    found = Lineage(*build(results))
    names = names_of(found, found.items, KINDS)
    assert len(set(names.values())) == len(found.items) == 6
    folders = sorted(names[key] for key, item in found.items.items() if not item.origins)
    assert folders[0] == "scans (Folder), /a/scans"
    assert all(name.startswith("scans (Folder), /b/scans, read 2001-09-09 ") for name in folders[1:])
    again = Lineage({key: item for key, item in found.items.items() if not item.origins})
    assert len(set(names_of(again, again.items, KINDS).values())) == 3


def test_the_table_says_of_each_item_what_it_is_the_newest_first() -> None:
    found = chain("a", "b")
    rows = item_rows(found, Judged(Verdicts(frozenset("b"), {"a": "parameter x changed"})), KINDS)
    assert list(rows) == [*found.order][::-1]
    assert [row[:4] for row in rows.values()] == [
        ("b", "Report", "current", "Make of p"),
        ("a", "Report", "stale", "Make of p"),
    ]


def test_each_pipeline_without_a_plan_is_named_with_its_problem() -> None:
    said = problems_notice({"lesions": "Patches: the table <b> is gone"})
    assert "of a pipeline that cannot run" in said
    assert "<b><bdi>lesions</bdi></b> <bdi>Patches: the table &lt;b&gt; is gone</bdi>" in said
    many = problems_notice({f"p{at}": "no plan" for at in range(5)})
    assert "of 5 pipelines that cannot run" in many
    assert "p2" in many
    assert "p3" not in many
    assert "and 2 more pipelines" in many
