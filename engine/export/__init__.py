"""A pipeline as one Python file that a person can read, change and run without the editor and the run store; with it,
the files that a platform takes to run it.

write     the file's text, from a pipeline that was resolved
values    which parameters stand at the top of the file, and what the calls say
source    text of people as Python: literals, comments, names
steps     what the file calls when it runs: folders, results that stand already, progress
session   the same for its Spark session
program   the file with its steps, and what the place that runs it must have
limits    a profile's limit of time and cost, as platforms keep it
platforms what Airflow, Databricks, GitHub and Kubernetes take, a module each; `yaml_text` is their YAML
"""
