"""Trainings compared: what runs have recorded of them, the whitepaper's experiment, the tables and the page.

run store ──> measured ──> Training records ──┬── comparison.json (joins those of other machines)
                                              └── comparison (ratios, break-even) ──> report: tables, pictures, page
"""
