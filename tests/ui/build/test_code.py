from __future__ import annotations

import ast
import base64
import io
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from building import box, pipeline

import voxelflow
from engine.diagnostics.rule import CheckFailed
from ui.build.catalogue import Catalogue
from ui.build.code import code_of
from ui.protocol.commands import ExportCode, ExportTarget
from ui.studio_context import Studio

DOCUMENT = pipeline(
    box("folder", "VolumeFolder", folder="/data/volumes"), box("parquet", "NumpyToParquet"),
    box("off", "InspectDataset").model_copy(update={"mode": "disabled"}),
    wires="folder.out>parquet.files", name="My export",
)  # fmt: skip


@pytest.fixture
def real(studio: Studio) -> Studio:
    return replace(studio, make_catalog=voxelflow.catalog)


def _wanted(target: ExportTarget) -> ExportCode:
    return ExportCode(document="d", profile="local", target=target)


def test_a_program_is_what_the_command_writes_without_what_is_disabled(real: Studio) -> None:
    made = code_of(DOCUMENT, Catalogue(real.workspace, real.make_catalog), real, _wanted("python"))
    assert (made.name, made.packed) == ("My-export.py", False)
    ast.parse(made.text)
    assert "numpy_to_parquet" in made.text.lower()
    assert "inspect_dataset" not in made.text.lower()


@pytest.mark.parametrize("target", ["airflow", "github", "kubernetes", "databricks"])
def test_a_platform_is_one_zip_file_with_a_folder(real: Studio, target: ExportTarget) -> None:
    made = code_of(DOCUMENT, Catalogue(real.workspace, real.make_catalog), real, _wanted(target))
    assert made.packed
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(made.text))) as archive:
        names = archive.namelist()
    folder = Path(made.name).stem
    assert all(name.startswith(f"{folder}/") for name in names)
    assert any(name.endswith(".py") for name in names)


def test_a_pipeline_with_errors_is_no_program(real: Studio) -> None:
    broken = pipeline(box("p", "NumpyToParquet"))
    with pytest.raises(CheckFailed):
        code_of(broken, Catalogue(real.workspace, real.make_catalog), real, _wanted("python"))
