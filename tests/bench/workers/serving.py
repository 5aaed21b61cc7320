"""The loop of a measuring process: a line of JSON asks for a measure, a line answers with its figure."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from .measures import MEASURES
from .subject import Subject


def serve(make: Callable[[str], Subject]) -> None:
    """Answer until the input ends. Each request names a measure, a file and the measure's arguments."""
    for line in sys.stdin:
        name, path, arguments = json.loads(line)
        subject = make(path)
        try:
            figure = MEASURES[name](subject, **arguments)
        finally:
            subject.close()
        print(json.dumps(figure), flush=True)
