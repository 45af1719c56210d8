"""Looking at datasets: a small process beside the app opens them and makes pictures of them.

A process and not threads of the app's server. Decoding Parquet and sorting through a large table hold the interpreter's
lock, and the editor's link would wait for it; a damaged file may end the process that reads it; and what was read of
650,000 volumes is given back when the process ends. It is started by the first dataset that there is to look at,
imports while the person still looks at the graph, and ends with the app. One that died is started again by the next
question.
"""
