"""The figures of a cross-validation as a person reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.evaluation.folds import fold_figures, write_fold_report


@pytest.mark.parametrize(
    ("values", "headline", "cells"),
    [
        ((0.00012, 0.00034), "val_mae 0.00023 ± 0.00016 over 2 folds", ("0.00012", "0.00034")),
        ((12345.6, 12567.8), "val_mae 12,457 ± 160 over 2 folds", ("12,346", "12,568")),
        ((0.93121, 0.93124), "val_mae 0.9312 ± 2.1e-05 over 2 folds", ("0.93121", "0.93124")),
        ((2.0, 2.0), "val_mae 2 ± 0 over 2 folds", ("2", "2")),
    ],
)
def test_figures_of_any_size_can_be_read(
    tmp_path: Path, values: tuple[float, float], headline: str, cells: tuple[str, str]
) -> None:
    found = fold_figures({f"fold {at}": {"val_mae": value} for at, value in enumerate(values, 1)})
    assert found.headline() == headline
    page = write_fold_report(found, tmp_path).read_text()
    assert all(f"<td>{cell}</td>" in page for cell in cells)
    mean, deviation = headline.split()[1:4:2]
    assert f"<strong>{mean}</strong> ± {deviation}<" in page
