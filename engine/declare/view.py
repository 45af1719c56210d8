"""Declaring how a dataset is looked at: panels of thumbnails, rows, charts and documents.

    class HorizonView(DatasetView):
        def __init__(self, horizon):
            self.panels = {"depths": Depths(horizon), "picture": Document("Picture", horizon.picture)}

    class Horizon(Dataset):
        def open_view(self, made_from):
            return HorizonView(self)

The editor knows the kinds of panels below and nothing of dataset types, so a package's own type is shown without any
change to the editor. A view lives in a process of its own beside the app (`engine.viewing`): it may import what it
likes, keep what it has read, and raise `VoxelflowError` with what the person should read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, SerializeAsAny, WithJsonSchema

from engine.errors import VoxelflowError

if TYPE_CHECKING:
    from numpy.typing import NDArray

PanelKind = Literal["gallery", "table", "charts", "document"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Option(_Frozen):
    """One answer to a `Choice`: its value, and the words for it."""

    value: str
    text: str


class Choice(_Frozen):
    """A question that a panel asks the person; the first of the `options` is taken until another one is chosen."""

    name: str
    title: str
    options: tuple[Option, ...]


class GalleryItem(_Frozen):
    """One volume of a gallery. `row` is what `Gallery.volume` takes; `label` is None while it is not known."""

    row: int
    id: str
    label: str | None = None
    note: str = ""


class CardPicture(_Frozen):
    """A few volumes of the panel `panel`, for a card; none where there are none."""

    panel: str
    items: tuple[GalleryItem, ...]


class Picked(_Frozen):
    """Volumes to show; `total` counts all that the choices leave, None when they were not counted."""

    items: tuple[GalleryItem, ...]
    total: int | None = None


class TableRow(_Frozen):
    """A row of a table, and what a click on it shows: `volume`, a row of the view's gallery, or `opens`, a `Dataset`
    (in the browser its key)."""

    cells: tuple[str | int | float | None, ...]
    volume: int | None = None
    opens: Annotated[SerializeAsAny[BaseModel], WithJsonSchema({"type": "string"})] | None = None


class TableColumn(_Frozen):
    """A column of a table. `unit` "bytes" and "time" (seconds since the epoch) are shown as such."""

    title: str
    unit: str = ""


class TablePage(_Frozen):
    """Rows of a table from `offset` on; `total` counts all of them."""

    columns: tuple[TableColumn, ...]
    rows: tuple[TableRow, ...]
    offset: int
    total: int
    note: str = ""


class Chart(_Frozen):
    """Numbers to draw.

    "bars": one bar for each of `x`, of a height in the only series. "histogram": the same, `x` are the edges of the
    bins, one more than values. "lines": series over `x`. "matrix": series are rows, `x` the columns. "scatter": a point
    for each of `x`, at a height in the only series; both are of one quantity, so the axes have the same range, and a
    line is where they are equal.
    """

    title: str
    kind: Literal["bars", "histogram", "lines", "matrix", "scatter"]
    x: tuple[float | str, ...]
    series: Mapping[str, tuple[float | None, ...]]
    x_title: str = ""
    y_title: str = ""
    note: str = ""


class Charts(_Frozen):
    """The charts of a panel, in their order."""

    charts: tuple[Chart, ...]


class Panel(ABC):
    """A part of a view, with a `title`. One of the four kinds below."""

    kind: ClassVar[PanelKind]
    title: str

    def choices(self) -> Sequence[Choice]:
        """What the person may choose, by name in `chosen` of the other methods. May take seconds."""
        return ()


class Gallery(Panel):
    """Volumes as thumbnails; each can be opened. `shape` is that of a volume, `title` above them."""

    kind = "gallery"
    shape: tuple[int, ...]
    dtype: str

    @abstractmethod
    def pick(self, offset: int, count: int, seed: int, chosen: Mapping[str, str]) -> Picked:
        """Volumes `offset` to `offset + count` of an order that `seed` decides. Must be quick, however many there
        are: the first ones appear without a scan."""

    @abstractmethod
    def volume(self, row: int) -> NDArray[Any]:
        """A volume, of any shape and number type. Raises `DataError` when there is none or it is damaged."""

    def spacing(self, row: int) -> tuple[float, float, float] | None:
        """Millimetres from voxel to voxel along X, Y and Z; None if unknown. Called after `volume`."""
        return None

    def item(self, row: int) -> GalleryItem:
        """What stands beside the volume."""
        return GalleryItem(row=row, id=str(row))

    def sample(self, count: int) -> Sequence[NDArray[Any]]:
        """Up to `count` volumes from all over, whatever is chosen; what cannot be read is left out. What the colours
        of all thumbnails stand for is found from these."""
        found = []
        for item in self.pick(0, count, 0, {}).items:
            with suppress(VoxelflowError, OSError):
                found.append(self.volume(item.row))
        return found


class Table(Panel):
    """Rows, a page at a time."""

    kind = "table"

    @abstractmethod
    def page(self, offset: int, count: int, chosen: Mapping[str, str]) -> TablePage:
        """Up to `count` rows from number `offset` on."""


class ChartPanel(Panel):
    """Charts."""

    kind = "charts"

    @abstractmethod
    def charts(self, chosen: Mapping[str, str]) -> Sequence[Chart]:
        """What to draw."""


class Document(Panel):
    """A file as it is: HTML, a picture, text. HTML is shown without its scripts."""

    kind = "document"

    def __init__(self, title: str, path: Path) -> None:
        self.title, self.path = title, path


class DatasetView:
    """A dataset that is opened to be looked at: its panels by name, in the order in which they are offered.

    Methods of the panels are called from several threads: of one panel one at a time, and `choices` beside it.
    """

    panels: Mapping[str, Panel]
    note: str = ""
    """What a person must know of all of them, such as that they show a sample: it stands with the dataset's figures."""
    figures: Mapping[str, Any] | None = None
    """The dataset's figures, where the view knows them better than the dataset's `details`."""

    def close(self) -> None:
        """Let go of what is open."""
