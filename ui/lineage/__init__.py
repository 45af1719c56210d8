"""The page of where data comes from: `drawing` gives streamlit-agraph the graph, `judging` finds out what is stale.

The graph itself is `engine.lineage`.
"""
