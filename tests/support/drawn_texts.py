"""The texts of a drawn figure."""

from itertools import combinations
from unittest.mock import patch

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text


def covered(figure):
    """Pairs of overlapping texts, and texts that exceed the figure."""
    texts = []
    with patch.object(Text, "draw", lambda text, _: texts.append(text)):
        FigureCanvasAgg(figure).draw()
    texts = [text for text in texts if text.get_text().strip()]
    # Of an annotation the text alone: its line may cross others.
    boxes = [(text.get_text(), Text.get_window_extent(text)) for text in texts]
    edge = figure.bbox
    result = [
        (text, "the edge")
        for text, box in boxes
        if not (edge.contains(box.x0, box.y0) and edge.contains(box.x1, box.y1))
    ]
    for (first, a), (second, b) in combinations(boxes, 2):
        # Overlaps of up to one pixel are allowed.
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1:
            result.append((first, second))
    return result
