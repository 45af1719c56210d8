"""Any pipeline that a document can hold, for laws about documents."""

from __future__ import annotations

from hypothesis import strategies as st

from engine.document.pipeline import Annotation, Edge, Node, Pipeline, PipelineParameter, Position

text = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
number = st.floats(allow_nan=False, allow_infinity=False)
value = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | number | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
node_id = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,8}", fullmatch=True)
nodes = st.builds(
    Node,
    id=node_id,
    type=text,
    version=st.none() | st.integers(),
    title=text,
    params=st.dictionaries(text, value, max_size=3),
    position=st.builds(Position, x=number, y=number),
    retries=st.integers(0, 100),
    timeout_s=st.none() | st.floats(0.001, 1e9),
    mode=st.sampled_from(["run", "disabled", "bypass"]),
    ui=st.dictionaries(text, value, max_size=2),
)
end = st.from_regex(r"[^.]{1,6}\.[^.]{1,6}", fullmatch=True).filter(
    lambda t: not any(0xD800 <= ord(c) < 0xE000 for c in t)
)
edges = st.builds(lambda a, b: Edge(**{"from": a, "to": b}), end, end)
annotations = st.builds(
    Annotation,
    id=node_id,
    kind=st.sampled_from(["frame", "note"]),
    text=text,
    colour=st.sampled_from(["grey", "violet"]),
    position=st.builds(Position, x=number, y=number),
    width=st.floats(0.1, 1e9),
    height=st.floats(0.1, 1e9),
)
pipelines = st.builds(
    Pipeline,
    name=st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=300),
    description=text,
    parameters=st.dictionaries(node_id, st.builds(PipelineParameter, value=value, help=text), max_size=3),
    nodes=st.lists(nodes, max_size=5, unique_by=lambda n: n.id.lower()).map(tuple),
    # Some of them twice and thrice: the document allows it, so it must survive.
    edges=st.lists(edges, max_size=4)
    .flatmap(lambda few: st.lists(st.sampled_from(few), max_size=8) if few else st.just([]))
    .map(tuple),
    annotations=st.lists(annotations, max_size=3, unique_by=lambda a: a.id).map(tuple),
    ui=st.dictionaries(text, value, max_size=2),
)
