"""Text boxes of a drawn figure, from the renderer's own extents."""

from itertools import combinations

from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

SLACK_PIXELS = 1.0


def drawn_texts(figure: Figure) -> list[tuple[str, Bbox]]:
    """(text, box in pixels) of every text that the last drawing shows."""
    renderer = figure.canvas.get_renderer()
    hidden = _tick_texts_that_are_not_drawn(figure)
    boxes = []
    for text in figure.findobj(Text):
        shown = text.get_visible() and text.get_text().strip() and id(text) not in hidden
        if shown and _parents_visible(text):
            boxes.append((text.get_text(), Text.get_window_extent(text, renderer)))
    return boxes


def problems(figure: Figure) -> list[str]:
    """One line for every text that leaves the canvas and every two that overlap."""
    FigureCanvasAgg(figure)  # the canvas of PNG files measures the texts
    figure.draw_without_rendering()
    boxes = drawn_texts(figure)
    canvas = figure.bbox
    found = [
        f"clipped: {text!r}"
        for text, box in boxes
        if box.x0 < canvas.x0 - SLACK_PIXELS
        or box.y0 < canvas.y0 - SLACK_PIXELS
        or box.x1 > canvas.x1 + SLACK_PIXELS
        or box.y1 > canvas.y1 + SLACK_PIXELS
    ]
    for (one, box), (other, other_box) in combinations(boxes, 2):
        width = min(box.x1, other_box.x1) - max(box.x0, other_box.x0)
        height = min(box.y1, other_box.y1) - max(box.y0, other_box.y0)
        if width > SLACK_PIXELS and height > SLACK_PIXELS:
            found.append(f"overlap: {one!r} and {other!r}")
    return found


def _parents_visible(text: Text) -> bool:
    axes = text.axes
    return axes is None or axes.get_visible()


def _tick_texts_that_are_not_drawn(figure: Figure) -> set[int]:
    """Labels of ticks beyond the limits of an axis exist but are not drawn."""
    hidden: set[int] = set()
    for axis in figure.findobj(lambda artist: isinstance(artist, Axis)):
        shown = {id(tick) for tick in axis._update_ticks()} if axis.axes.axison else set()
        for tick in [*axis.majorTicks, *axis.minorTicks]:
            if id(tick) not in shown:
                hidden |= {id(tick.label1), id(tick.label2)}
    return hidden
