"""A draft as code: what `voxelflow export` writes, made for a download."""

from __future__ import annotations

import base64
import io
import zipfile
from collections.abc import Mapping

from engine.diagnostics.rule import CheckFailed
from engine.document.pipeline import Pipeline
from engine.document.resolve import resolve
from engine.export.platforms import export_files, problems
from engine.export.source import file_stem
from ui.build.catalogue import Catalogue
from ui.protocol.commands import ExportCode
from ui.protocol.notices import Exported
from ui.studio_context import Studio


def code_of(pipeline: Pipeline, catalogue: Catalogue, studio: Studio, wanted: ExportCode) -> Exported:
    """The file, or a zip file of all that a platform takes.

    Raises `CheckFailed` with the problems of a pipeline that cannot run, `UsageError` for what cannot be exported.
    """
    resolved = resolve(pipeline, catalogue.catalog, base=studio.base)
    profile = catalogue.profile(wanted.profile)
    found = [*catalogue.catalog.problems, *problems(wanted.target, resolved, profile)]
    if any(d.severity == "error" for d in found):
        raise CheckFailed(found)
    files = export_files(wanted.target, resolved, profile, {}, base=studio.base, workspace=studio.workspace.root)
    if wanted.target == "python":
        ((name, text),) = files.items()
        return Exported(name=name, text=text, packed=False)
    folder = f"{file_stem(pipeline.name)}-{wanted.target}"
    return Exported(name=f"{folder}.zip", text=_packed(folder, files), packed=True)


def _packed(folder: str, files: Mapping[str, str]) -> str:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            info = zipfile.ZipInfo(f"{folder}/{name}", (2020, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o755 if text.startswith("#!") else 0o644) << 16
            archive.writestr(info, text)
    return base64.b64encode(out.getvalue()).decode()
