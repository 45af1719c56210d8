"""Where a training should run: its time and cost on every known machine, before it is paid for.

    pipeline ──workload hook──> TrainingWork ┐
    bench/*.json ──> StepModel (`steps`)     ├──> advise ──> Advice: an Estimate for each machine and storage
    probes/*.json ──> InputModel (`reading`) │              the recommended one, why, and what would change it
    machines.csv ──> Candidate (`machines`)  ┘

`steps` and `reading` are laws with few coefficients, fitted to what was measured; `saving` is what checkpoints add;
`advice` puts them together, `report` words it; `sources` finds what a workspace knows; `run_estimate` adds up a whole
run, with what earlier runs tell of its other nodes. All but these two is pure arithmetic on plain records.
"""
