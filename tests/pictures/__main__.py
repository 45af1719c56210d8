"""`python -m tests.pictures gallery` draws those of the start page anew; `pages` takes screenshots of every page."""

from __future__ import annotations

import argparse
from pathlib import Path

ROOT = Path(__file__).parents[2]
SIZES = ((1280, 800), (1920, 1080))
MODES = ("light", "dark")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.pictures")
    kinds = parser.add_subparsers(dest="kind", required=True)
    kinds.add_parser("gallery", help="the pictures of templates and volumes on the start page")
    pages = kinds.add_parser("pages", help="every page, light and dark, at 1280x800 and 1920x1080")
    pages.add_argument("--out", type=Path, required=True, help="folder of the screenshots, and of their workspace")
    pages.add_argument("--only", nargs="*", default=[], help="names of pages, such as start run compare")
    pages.add_argument("--mode", choices=MODES, help="light or dark alone")
    pages.add_argument("--size", choices=[f"{w}x{h}" for w, h in SIZES], help="one size alone")
    pages.add_argument("--readme", action="store_true", help="also write those of the README, into ui/pictures")
    given = parser.parse_args()
    if given.kind == "gallery":
        from tests.pictures.gallery import draw_all

        for path in draw_all(ROOT / "pipelines" / "pictures"):
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")
    else:
        from tests.pictures.pages import take_all

        modes = [mode for mode in MODES if given.mode in (None, mode)]
        sizes = [size for size in SIZES if given.size in (None, "{}x{}".format(*size))]
        take_all(given.out.absolute(), given.only, modes, sizes, readme=given.readme)


if __name__ == "__main__":
    main()
