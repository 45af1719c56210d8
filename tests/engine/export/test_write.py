"""The text of exported files: what stands at the top, what is called, and that nothing typed becomes code."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from exports_to_platforms import words

import nodes
from engine.catalog import Catalog, build_catalog
from engine.declare.node import node
from engine.document.checks import check
from engine.document.find import shipped_pipelines
from engine.document.pipeline import Node, Pipeline, PipelineParameter, read_pipeline
from engine.document.resolve import resolve
from engine.errors import UsageError
from engine.export.steps import below
from engine.export.write import write
from engine.profiles import Profile
from engine.spark.jars import EXTENSION

GOLDEN = Path(__file__).parent / "golden"
LOCAL = Profile(name="local", cores=2, memory_bytes=1 << 30)
SPARK = Profile(
    name="cluster",
    backend="spark",
    cores=4,
    memory_bytes=2 << 30,
    master="spark://10.0.0.5:7077",
    spark={"spark.executor.memory": "8g", "spark.hadoop.fs.s3a.secret.key": "${S3_KEY}"},
    storage_root=Path("/mnt/shared"),
)
HOSTILE = [
    '"""\nimport os\nos.abort()\n"""',
    "'; raise SystemExit #",
    "# /// script\n# ///",
    "\u2028\u202e{}\\",
    "${x} \x00",
]


def document(**changes: Any) -> Pipeline:
    """Two makers and a joiner; one maker takes the pipeline's parameters in every way."""
    params = {"text": "say ${words}!", "times": "${times}", "shape": ["${times}", 4], "source": "${folder}/list.txt"}
    given = {
        "description": "Two words, joined.",
        "parameters": {
            "words": PipelineParameter(value="hello", help="What to say."),
            "times": PipelineParameter(value=2),
            "folder": PipelineParameter(value="/data"),
        },
        "nodes": [
            Node(id="first", type="Words", title="A first word", params=params),
            Node(id="class", type="Words"),
            Node(id="last-one", type="Join"),
        ],
    }
    return words(**(given | changes))


def text_of(pipeline: Pipeline, catalog: Catalog, profile: Profile = LOCAL, **values: Any) -> str:
    resolved = resolve(pipeline, catalog, values, base=Path("/base"))
    assert [d.line() for d in check(resolved, None, profile).diagnostics if d.severity == "error"] == []
    return write(resolved, profile, values, base=Path("/base"), machine=profile is LOCAL)


@pytest.mark.parametrize(("profile", "name"), [(LOCAL, "embedded.py.txt"), (SPARK, "spark.py.txt")])
def test_the_text(mine: Catalog, workspace: Any, profile: Profile, name: str) -> None:
    text = text_of(document(), mine, profile).replace(str(workspace.my_nodes), "/workspace/my_nodes")
    assert text == (GOLDEN / name).read_text()


@pytest.mark.slow
def test_every_shipped_pipeline_for_every_backend() -> None:
    catalog = build_catalog(nodes.BUILT_IN)
    spark = Profile(name="spark-local", backend="spark", cores=2, memory_bytes=1 << 30)
    for path in shipped_pipelines().values():
        pipeline = read_pipeline(path)
        values = {n: "/data" for n, p in pipeline.parameters.items() if p.value is None}
        for profile in (LOCAL, spark):
            tree = ast.parse(text_of(pipeline, catalog, profile, **values))
            called = [c.func for c in ast.walk(tree) if isinstance(c, ast.Call) and isinstance(c.func, ast.Call)]
            assert len(called) == len(pipeline.nodes)
            imported = {n.module for n in tree.body if isinstance(n, ast.ImportFrom) and n.module}
            assert not [
                m for m in imported if m.startswith(("ui", "engine.store.runs", "engine.run.execute", "engine.cli"))
            ]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_nothing_typed_becomes_code(mine: Catalog, hostile: str) -> None:
    calm = text_of(document(), mine, SPARK)
    parameters = {n: p.model_copy(update={"help": hostile}) for n, p in document().parameters.items()}
    value = hostile.replace("\x00", "")  # a value with a NUL is refused; titles and help may have one
    parameters["words"] = PipelineParameter(value=value, help=hostile)
    makers = [n.model_copy(update={"title": hostile}) for n in document().nodes]
    text = text_of(
        document(name=value, description=hostile, nodes=makers, parameters=parameters),
        mine,
        SPARK.model_copy(update={"spark": {"spark.x": hostile}}),
    )
    shape = [type(n) for n in ast.parse(calm).body]
    assert [type(n) for n in ast.parse(text).body] == shape
    constants = {n.targets[0].id: n.value for n in ast.parse(text).body if isinstance(n, ast.Assign)}  # type: ignore[attr-defined]
    assert ast.literal_eval(constants["WORDS"]) == value
    assert all(line.isprintable() for line in text.split("\n"))
    # Tools that run single files read more than Python does.
    assert "# /// script" not in text.split("\n")


@pytest.mark.parametrize("length", [93, 94, 95, 96, 97])
def test_a_long_word_of_a_description_may_be_broken_anywhere(mine: Catalog, length: int) -> None:
    folder = "x" * length + "\\Users\\N"
    head = ast.get_docstring(ast.parse(text_of(document(description=folder), mine)))
    assert head is not None
    assert folder in head.replace("\n    ", "")


def test_the_profile_s_own_extension_stands_beside_delta_s(mine: Catalog) -> None:
    for own, wanted in (("my.Extension", f"my.Extension,{EXTENSION}"), (EXTENSION, EXTENSION)):
        profile = SPARK.model_copy(update={"spark": {"spark.sql.extensions": own}})
        text = text_of(document(), mine, profile)
        assert f'"spark.sql.extensions": "{wanted}",' in text


def test_an_id_that_python_uses_otherwise(mine: Catalog) -> None:
    names = ["class", "main", "steps", "OUT", "words", "print", "SPARK", "__debug__", "a-b", "a_b"]
    pipeline = document(nodes=[Node(id=n, type="Words") for n in names], edges=[])
    compile(text_of(pipeline, mine), "exported", "exec")


def test_a_parameter_read_in_two_ways_stays_as_it_was_typed(mine: Catalog) -> None:
    pipeline = document(
        parameters={"n": PipelineParameter(value=3)},
        nodes=[
            Node(id="a", type="Words", params={"times": "${n}"}),
            Node(id="b", type="Words", params={"share": 0, "text": "number ${n}, $${kept}"}),
        ],
        edges=[],
    )
    text = text_of(pipeline, mine)
    assert "\nN = 3\n" in text
    assert "times=N," in text
    assert 'text="number " + json.dumps(N) + ", ${kept}",' in text
    assert "\nimport json\n" in text


def test_a_relative_path_starts_where_the_file_was_written(mine: Catalog) -> None:
    pipeline = document(
        parameters={"where": PipelineParameter(value="lists")},
        nodes=[
            Node(id="a", type="Words", params={"source": "${where}/a.txt"}),
            Node(id="b", type="Words", params={"source": "b.txt", "text": "${where}"}),
        ],
        edges=[],
    )
    text = text_of(pipeline, mine)
    assert 'source=below("/base", WHERE + "/a.txt"),' in text
    assert "import Steps, below, load_node, start\n" in text
    assert '\nB_SOURCE = "/base/b.txt"\n' in text
    assert "text=WHERE," in text


@pytest.mark.parametrize(
    ("where", "place"),
    [
        ("lists", "/base/lists/a.txt"),
        ("/abs", "/abs/a.txt"),
        ("~", f"{Path.home()}/a.txt"),
        ("s3://bucket/x", "s3://bucket/x/a.txt"),
    ],
)
def test_a_value_at_the_top_that_is_changed_to_another_place(mine: Catalog, where: str, place: str) -> None:
    pipeline = document(
        parameters={"where": PipelineParameter(value="lists")},
        nodes=[Node(id="a", type="Words", params={"source": "${where}/a.txt"})],
        edges=[],
    )
    (found,) = (
        n for n in ast.walk(ast.parse(text_of(pipeline, mine))) if isinstance(n, ast.keyword) and n.arg == "source"
    )
    assert eval(ast.unparse(found.value), {"below": below, "WHERE": where}) == place


def test_a_node_type_without_a_name_in_its_module_is_refused() -> None:
    def nameless(*, times: int = 1) -> None:
        """Does nothing."""

    catalog = Catalog()
    catalog.add(node("Nameless", version=1, category="Mine")(nameless))
    with pytest.raises(UsageError, match="Nameless cannot be imported by a file"):
        text_of(document(nodes=[Node(id="a", type="Nameless")], edges=[]), catalog)
