"""The aggregator's service, telling how much of its time went into the released table.

python benchmarks/federation/serve.py TIMES serve --home HOME --port PORT
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

from timing import spent, watch

from sherd.cli.aggregator import aggregator

TABLE = "assembling and writing the released table"


def tell(place: Path) -> None:
    """Write the times down, again and again."""
    while True:
        fresh = place.with_suffix(".new")
        fresh.write_text(json.dumps(dict(spent)), encoding="utf-8")
        fresh.rename(place)
        pause.wait(0.25)


if __name__ == "__main__":
    pause = threading.Event()
    # The worker's own time: other owners may be sending while a delivery is looked at.
    watch(TABLE, "sherd.federation.aggregator.round_tasks", "_tables")
    watch(TABLE, "sherd.federation.aggregator.round_tasks", "check")
    # The whole process's time: Arrow writes in threads of its own, and owners wait meanwhile.
    watch(TABLE, "sherd.federation.aggregator.round_tasks", "assemble", time.process_time)
    watch(TABLE, "sherd.release.bundle", "Release.stage", time.process_time)
    threading.Thread(target=tell, args=(Path(sys.argv[1]),), daemon=True).start()
    aggregator(sys.argv[2:])
