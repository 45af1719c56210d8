"""The pages about runs: the history, one run, and runs side by side.

history      the page of all runs
run_page     the page of one run: `actions` and `results` (its buttons), and a tab in each of overview, graph (with
             node_panel), timeline, metrics, monitor, logs, document
comparison   the page of several runs, with graph_changes
details      a run with its document, plan and tasks, and their values as text
feed         a run's events, read once and followed
charts       Vega-Lite specifications, curves
summary      a run's figures beside those of the run before, and what was different; the editor shows it too
outputs      the models and tables that a run made, and the code that goes on with them
artifacts    files that a run has kept

Functions that turn store rows and events into rows and points draw nothing; `show` and what it calls draw. While a run
is active its page's fragments run every second; keys are constant and data goes beside the charts' specifications, so
that nothing on the page is built anew.
"""
