"""A package of somebody else, as an installer puts it."""

from __future__ import annotations

from pathlib import Path


def install(site: Path, entry_points: str, group: str = "voxelflow.nodes", **modules: str) -> Path:
    """Write `modules` (sources by name) and the metadata with `entry_points` into the folder `site`; gives the folder.

    `entry_points` are lines of the group. The package is called like its first module.
    """
    name = next(iter(modules))
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry_points}\n")
    for module, source in modules.items():
        (site / f"{module}.py").write_text(source)
    return site
