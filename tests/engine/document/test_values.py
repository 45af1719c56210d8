"""What --set values mean: of the pipeline's parameters, and of its nodes' (`node.parameter`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from building import box, pipeline
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from engine.catalog import Catalog, build_catalog
from engine.document.pipeline import PipelineParameter, dump, load
from engine.document.resolve import resolve
from engine.document.values import read_setting, read_settings, read_texts, with_values
from engine.errors import UsageError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "default", "value"),
    [
        ("5", 3, 5),
        ("5", None, "5"),
        ("2024", "text", "2024"),
        ("[16,16,8,2]", None, [16, 16, 8, 2]),
        ("[16,16,8,2]", [1], [16, 16, 8, 2]),
        ("true", False, True),
        ("true", None, "true"),
        ("null", "text", "null"),
        ("null", 3, None),
        ('"5"', 3, "5"),
        ("007", 3, "007"),
        ("NaN", 3.5, "NaN"),
        ("1e999", 3.5, "1e999"),
        ("", "text", ""),
        ("a=b", None, "a=b"),
    ],
)
def test_values(text: str, default: JsonValue, value: JsonValue) -> None:
    assert read_setting(text, default) == value
    assert type(read_setting(text, default)) is type(value)


@pytest.mark.slow
@given(st.text(), st.sampled_from([None, "text", 3, [1], True]))
def test_any_value_can_be_kept_in_a_document(text: str, default: JsonValue) -> None:
    json.dumps(read_setting(text, default), allow_nan=False)


@pytest.mark.parametrize("text", ["[1, 1e999]", "[[-1e999]]", '{"a": 1e999}'])
def test_a_list_with_a_number_that_no_document_can_hold_is_refused(text: str, probes: Catalog) -> None:
    document = pipeline(box("n", "Make"), sizes=[1.0])
    with pytest.raises(UsageError, match="--set sizes holds NaN or a number beyond the largest"):
        read_settings([f"sizes={text}"], document, probes)
    with pytest.raises(UsageError, match="--set sizes holds NaN"):
        read_texts({"sizes": float("nan")}, document, probes)


def test_relative_paths_start_at_the_current_directory(home: Path, probes: Catalog) -> None:
    document = pipeline(box("n", "Count", folder="${data}"), box("m", "Make", text="${text}"), data=None, text="t")
    assert read_settings(["data=some/../files", "text=some/files"], document, probes) == {
        "data": str(home / "files"),
        "text": "some/files",
    }
    assert read_settings(["data=~/x"], document, probes) == {"data": str(Path.home() / "x")}
    assert read_settings(["data="], document, probes) == {"data": ""}


def test_a_path_of_a_node_may_begin_with_a_reference(home: Path, probes: Catalog) -> None:
    """Not below the current directory, as `./data` would be: what it refers to is absolute."""
    document = pipeline(box("n", "Count", folder="x"), data="/data", name_="a")
    for written, read, meant in (
        ("${data}/train", "${data}/train", "/data/train"),
        ("${data}", "${data}", "/data"),
        ("sub/${name_}", f"{home}/sub/${{name_}}", f"{home}/sub/a"),
        ("$${data}", f"{home}/$${{data}}", f"{home}/${{data}}"),
    ):
        values = read_settings([f"n.folder={written}"], document, probes)
        assert values == {"n.folder": read}
        assert resolve(document, probes, values).nodes["n"].params == {"folder": meant}
        assert resolve(with_values(document, values), probes).nodes["n"].params == {"folder": meant}


@pytest.mark.parametrize("data", ["d", "/data", "~/data", "s3://bucket/data"])
def test_a_path_that_begins_with_a_reference_means_the_same_from_anywhere(
    data: str, home: Path, probes: Catalog
) -> None:
    document = pipeline(box("n", "Count", folder="x"), data="/elsewhere")
    values = read_settings([f"data={data}", "n.folder=${data}/train"], document, probes)
    place = resolve(document, probes, values).nodes["n"].params["folder"]
    assert place == {"d": f"{home}/d/train", "~/data": f"{Path.home()}/data/train"}.get(data, f"{data}/train")


def test_null_is_no_part_of_a_text(probes: Catalog) -> None:
    document = pipeline(box("m", "Make", text="a-${t}"), t="b")
    assert resolve(document, probes).nodes["m"].params["text"] == "a-b"
    for resolved in (resolve(document, probes, {"t": None}), resolve(with_values(document, {"t": None}), probes)):
        assert [problem.line() for problem in resolved.problems] == [
            "error VF205 m.text: the parameter t has no value."
            " Give it one in the pipeline, or for a run with --set t=..."
        ]


@pytest.mark.parametrize("given_twice", [["text"], ["=x"], ["text=a", "text=b"]])
def test_settings_that_cannot_be_read(given_twice: list[str], probes: Catalog) -> None:
    with pytest.raises(UsageError, match="--set"):
        read_settings(given_twice, pipeline(text="t"), probes)


_CONTROL = st.sampled_from([chr(n) for n in (*range(9), *range(14, 32), 127)])


@given(control=_CONTROL, before=st.text("ab/.", max_size=3), after=st.text("ab/.", max_size=3))
def test_control_characters_are_refused(control: str, before: str, after: str) -> None:
    text = before + control + after
    for value in (text, [text], {text: 1}):
        with pytest.raises(UsageError, match="--set folder holds the control character"):
            read_settings([f"folder={json.dumps(value)}"], pipeline(), build_catalog((), None))
    assert read_settings(["note=a\tb\nc"], pipeline(), build_catalog((), None)) == {"note": "a\tb\nc"}


def test_what_is_not_utf8_is_refused() -> None:
    """As Python gives the bytes of a command line that are no text, and as JSON spells half a character."""
    for text in ("d\udcff", '"\\ud800"', '["d\\udcff"]', '{"d\\udcff": 1}'):
        with pytest.raises(UsageError, match="--set folder is not UTF-8 text"):
            read_settings([f"folder={text}"], pipeline(folder=["a"]), build_catalog((), None))
    whole = read_settings(["note=\U0001f600 é"], pipeline(note=""), build_catalog((), None))
    assert whole == {"note": "\U0001f600 é"}


def test_a_setting_that_nests_too_deep_is_text(home: Path) -> None:
    assert read_setting("[" * 100_000, None) == "[" * 100_000


@pytest.mark.parametrize("brackets", ["[]", '{"a":}'], ids=["lists", "objects"])
def test_a_value_that_nests_deep_is_kept_or_refused(brackets: str, probes: Catalog) -> None:
    """Never taken and then met by the limit of a document, or of Python's recursion."""
    document = pipeline(box("m", "Make", text=[]), note=[])
    for name in ("note", "m.text"):
        kept = read_settings([f"{name}={brackets[:-1] * 100}1{brackets[-1] * 100}"], document, probes)
        assert load(dump(with_values(document, kept))) == with_values(document, kept)
        deeper = kept[name]
        for count in range(101, 1200):
            deeper = [deeper] if brackets == "[]" else {"a": deeper}
            if count in (101, 300, 600, 950, 1199):
                with pytest.raises(UsageError, match=f"--set {name} holds more than 100 lists and objects"):
                    read_texts({name: deeper}, document, probes)
        with pytest.raises(UsageError, match=f"--set {name} holds more than 100 lists and objects"):
            read_settings([f"{name}={brackets[:-1] * 600}1{brackets[-1] * 600}"], document, probes)


def test_a_nodes_parameter_is_read_as_its_type_wants_it(home: Path, probes: Catalog) -> None:
    document = pipeline(
        box("n", "Count", folder="${data}"), box("m", "Make", steps="${steps}"), data=None, steps=3, text="t"
    )
    read = read_settings(["n.folder=files", "m.steps=5", "m.text=2024", "m.step_s=1e-3"], document, probes)
    assert read == {"n.folder": str(home / "files"), "m.steps": 5, "m.text": "2024", "m.step_s": 0.001}
    resolved = resolve(document, probes, {**read, "text": "x"})
    assert not resolved.problems
    assert dict(resolved.nodes["m"].params) == {"text": "2024", "steps": 5, "step_s": 0.001}
    assert resolved.nodes["n"].params["folder"] == str(home / "files")
    kept = with_values(document, {**read, "text": "x", "gone.text": 1})
    assert kept.parameters["text"] == PipelineParameter(value="x")
    assert [n.params for n in kept.nodes] == [
        {"folder": str(home / "files")}, {"steps": 5, "text": "2024", "step_s": 0.001},
    ]  # fmt: skip
    assert resolve(kept, probes).nodes["m"].params == resolved.nodes["m"].params


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("a.stepz", "the node a (Make) has no parameter stepz", "It has: text, steps, step_s."),
        ("b.steps", "the pipeline has no node b", "It has: a, c."),
        ("stepz", "the pipeline has no parameter stepz", "It has: note."),
        ("steps", "the pipeline has no parameter steps", "It has: note. Those of nodes are a.steps."),
        ("a.", "the node a (Make) has no parameter ", "It has: text, steps, step_s."),
    ],
)
def test_an_unknown_name_says_what_there_is(name: str, message: str, hint: str, probes: Catalog) -> None:
    document = pipeline(box("a", "Make"), box("c", "Join"), note="")
    (found,) = (p for p in resolve(document, probes, {name: 1}).problems if p.code == "VF207")
    assert (found.message, found.hint, found.parameter) == (message, hint, name)


def test_a_node_whose_type_is_unknown_says_that_alone(probes: Catalog) -> None:
    found = resolve(pipeline(box("a", "Gone")), probes, {"a.x": 1}).problems
    assert [problem.code for problem in found] == ["VF101"]


def test_what_a_form_has_is_read_alike(probes: Catalog, tmp_path: Path) -> None:
    nodes = box("c", "Count", folder="${data}"), box("m", "Make", steps="${n}", text="${word}")
    document = pipeline(*nodes, data=None, n=3, word="x")
    read = read_texts({"data": "texts/../more", "n": "5", "word": "5"}, document, probes, tmp_path)
    assert read == {"data": str(tmp_path / "more"), "n": 5, "word": "5"}
    assert read_texts({"n": 7, "data": "/abs"}, document, probes, tmp_path) == {"n": 7, "data": "/abs"}
