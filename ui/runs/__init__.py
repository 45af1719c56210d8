"""The pages about runs: the history, one run, and runs side by side.

Store rows and events become tables and points in modules without Streamlit, which the pages draw:

    history_page    history
    run_page        actions (rerun, tracked), and a tab each:
      graph_tab       graph, graph_view, node_panel, details
      timeline_tab    timeline, charts
      metrics_tab     metrics, series, charts
      system_tab      system, series, charts
      logs_tab        logs, log_view
      pipeline_tab
    compare_page    comparison, metrics, charts

`feed` reads a run's events once and goes on from its place, `logs` its files; `watching` keeps both
for a browser tab. While a run is active its page's fragments run every second; keys are constant and
data goes beside the charts' specifications, so that nothing on the page is built anew.
"""
