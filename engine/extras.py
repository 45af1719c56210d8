"""The optional packages: which extra of `pip install 'voxelflow[...]'` brings each, and whether it is installed.

The base installs and runs the storage nodes. Everything here may be absent: import it inside functions, declare it
with `@node(..., needs=...)` where a node cannot do without it, and call `require` where a person asks for it.
`EXTRAS` and the extras in pyproject.toml say the same; a test compares them.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from itertools import combinations

from engine.errors import MissingPackage


@dataclass(frozen=True)
class Package:
    """`module` is what `import` calls it, `title` what people do, `project` its name on PyPI."""

    module: str
    title: str
    project: str


_MLFLOW = Package("mlflow", "MLflow", "mlflow")
_PANDAS = Package("pandas", "pandas", "pandas")
_H5PY = Package("h5py", "h5py", "h5py")
_FORMATS = {
    "dicom": (
        Package("pydicom", "pydicom", "pydicom"),
        # Decoders of compressed files. Not pylibjpeg-libjpeg, which is GPL.
        Package("gdcm", "GDCM", "python-gdcm"),
        Package("pylibjpeg", "pylibjpeg", "pylibjpeg"),
        Package("openjpeg", "OpenJPEG", "pylibjpeg-openjpeg"),
    ),
    "hdf5": (_H5PY,),
    "matlab": (Package("scipy", "SciPy", "scipy"), _H5PY),
    "nifti": (Package("nibabel", "NiBabel", "nibabel"),),
    "nrrd": (Package("nrrd", "pynrrd", "pynrrd"),),
    "segy": (Package("segyio", "segyio", "segyio"),),
    "tiff": (
        Package("tifffile", "tifffile", "tifffile"),
        Package("imagecodecs", "imagecodecs", "imagecodecs"),  # of compressed files
    ),
    "zarr": (Package("zarr", "Zarr", "zarr"),),
}
"""Readers of volumes."""
_TRAIN = (
    Package("tensorflow", "TensorFlow", "tensorflow"),
    Package("matplotlib", "Matplotlib", "matplotlib"),
    # A trained model is saved in MLflow's format.
    _MLFLOW,
)
EXTRAS: dict[str, tuple[Package, ...]] = {
    **_FORMATS,
    "formats": tuple(dict.fromkeys(package for packages in _FORMATS.values() for package in packages)),
    "login": (
        Package("authlib", "Authlib", "authlib"),
        Package("httpx", "HTTPX", "httpx"),
    ),
    "mlflow": (_MLFLOW,),
    "petastorm": (
        Package("petastorm", "petastorm", "petastorm"),
        _PANDAS,
        # petastorm imports distutils, which Python has no longer and setuptools brings.
        Package("setuptools", "setuptools", "setuptools"),
    ),
    "spark": (
        Package("pyspark", "PySpark", "pyspark"),
        Package("delta", "delta-spark", "delta-spark"),
        Package("filelock", "filelock", "filelock"),
    ),
    "studio": (
        Package("streamlit", "Streamlit", "streamlit"),
        Package("streamlit_agraph", "streamlit-agraph", "streamlit-agraph"),
        Package("uvicorn", "Uvicorn", "uvicorn"),
        _PANDAS,
    ),
    "sweep": (Package("optuna", "Optuna", "optuna"),),
    "train": _TRAIN,
    # With CUDA's libraries. After `train`, which a hint names where both would do.
    "gpu": (*_TRAIN, Package("pynvml", "NVIDIA's figures of GPUs", "nvidia-ml-py")),
}
"""The packages that each extra brings."""
_PACKAGES = {package.module: package for packages in EXTRAS.values() for package in packages}


def modules(extra: str) -> tuple[str, ...]:
    """What `import` calls the packages of an extra."""
    return tuple(package.module for package in EXTRAS[extra])


def missing(names: Iterable[str]) -> list[str]:
    """Those of the top-level modules that are not installed, each once. Imports none of them."""
    return [name for name in dict.fromkeys(names) if not _is_installed(name)]


def is_tracked() -> bool:
    """Whether runs go to MLflow: it is installed, and `VOXELFLOW_TRACKING=off` does not keep them out of it."""
    return not tracking_is_off() and not missing(["mlflow"])


def tracking_is_off() -> bool:
    """Whether the person wants no runs in MLflow."""
    return os.environ.get("VOXELFLOW_TRACKING", "").lower() == "off"


def extras_for(names: Iterable[str]) -> tuple[str, ...]:
    """The fewest extras that bring these modules; those that no extra brings are left out."""
    wanted = {name for name in map(_top_level, names) if name in _PACKAGES}
    return _fewest(wanted) if wanted else ()


def projects_beyond(names: Iterable[str]) -> tuple[str, ...]:
    """What pip installs for those of the modules that no extra brings, in the versions of here.

    A module that is not installed is taken for a project of its own name.
    """
    others = [name for name in names if _top_level(name) not in {*_PACKAGES, *sys.stdlib_module_names}]
    # It reads the files of every project that is installed: only where it must.
    known = metadata.packages_distributions() if others else {}
    pinned = (_requirement(name, known.get(_top_level(name), ())) for name in others)
    return tuple(dict.fromkeys(filter(None, pinned)))


def _top_level(module: str) -> str:
    """The part of a module's name by which projects and extras are known: google of google.protobuf."""
    return module.partition(".")[0]


def _requirement(module: str, projects: Iterable[str]) -> str:
    """The module's project among those that have files of its top-level one, pinned; "" where it has none, or which one
    is unclear."""
    found = set(projects)
    if "." in module:
        # Several may share the package around it. A module such as six.moves is there without a file.
        having = {project for project in found if _has(project, module)}
        found = having or (found if _is_installed(module) else set())
    if not found:  # a file of the person's own is in no registry
        return "" if _is_installed(module) else module
    named = {project for project in found if re.sub("[-.]", "_", project).lower() == module.lower().replace(".", "_")}
    if len(named or found) != 1:
        return ""
    project = (named or found).pop()
    # No registry has a local version, as of a build for one kind of GPU (2.3.0+cu121).
    return f"{project}=={metadata.version(project).partition('+')[0]}"


def _has(project: str, module: str) -> bool:
    """Whether the project has the module's file or folder."""
    path = module.replace(".", "/")
    return any(str(file).startswith((f"{path}/", f"{path}.")) for file in metadata.files(project) or ())


def missing_text(subject: str, names: Sequence[str]) -> tuple[str, str]:
    """What to say when `subject` needs modules that are not installed: the message and the hint."""
    titles = [package.title if (package := _PACKAGES.get(_top_level(name))) else name for name in names]
    listed = titles[0] if len(titles) == 1 else f"{', '.join(titles[:-1])} and {titles[-1]}"
    verb, them = ("is", "it") if len(titles) == 1 else ("are", "them")
    return f"{subject} needs {listed}, which {verb} not installed", f"Install {them}: {_command(names)}"


def install(*extras: str) -> str:
    """The command that installs extras."""
    return f"pip install 'voxelflow[{','.join(extras)}]'"


def require(subject: str, *names: str) -> None:
    """Raise `MissingPackage` when a module that `subject` needs is not installed."""
    if absent := missing(names):
        message, hint = missing_text(subject, absent)
        raise MissingPackage(message, hint=hint)


def missing_package(exc: BaseException) -> MissingPackage | None:
    """What an import that failed means when the module is of an extra that is not installed; else None."""
    if not isinstance(exc, ModuleNotFoundError) or exc.name is None:
        return None
    name = _top_level(exc.name)
    if name not in _PACKAGES or not missing([name]):
        return None
    _, hint = missing_text("", [name])
    return MissingPackage(f"{_PACKAGES[name].title} is not installed", hint=hint)


def _is_installed(name: str) -> bool:
    if name in sys.modules:
        return sys.modules[name] is not None
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    # A folder that happens to be called mlflow or delta is a namespace package to Python: it has no origin.
    return spec is not None and (spec.origin is not None or name not in _PACKAGES)


def _command(names: Sequence[str]) -> str:
    """The shortest `pip install`: the fewest extras that bring all, and packages that no extra has by name."""
    of_extras = {name for name in map(_top_level, names) if name in _PACKAGES}
    others = [name for name in names if _top_level(name) not in _PACKAGES]
    return " ".join([install(*_fewest(of_extras)) if of_extras else "pip install", *others])


def _fewest(names: set[str]) -> tuple[str, ...]:
    for count in range(1, len(EXTRAS) + 1):
        fitting = [c for c in combinations(EXTRAS, count) if names <= {m for extra in c for m in modules(extra)}]
        if fitting:
            return min(fitting, key=lambda chosen: sum(len(EXTRAS[extra]) for extra in chosen))
    raise AssertionError("every package of the table has an extra")
