"""Coverage-guided fuzzing of every parser of foreign bytes, by Atheris.

    python tests/support/fuzzing.py CORPUS RUNS [RECORD]
    python tests/support/fuzzing.py --target NAME CORPUS [libFuzzer's options]

Runs in an environment of its own (`make fuzz`). The inputs of a run are shared out among the
targets by how fast they are. A crash, 25 seconds or 2 GiB for one input fail it, and leave the
input in a file. What is new in the corpus stays there.
"""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

SHARES = {
    "envelope": 13, "canonical": 6, "body": 15, "request": 13, "response": 9, "delivery": 11,
    "manifest": 7, "chunks": 5, "enrolment": 2, "announcement": 4, "answers": 1, "http": 1,
    "id-token": 1, "party": 7, "certificate": 1, "provider": 1, "bundle": 1, "plan": 1, "upload": 1,
}  # fmt: skip
"""Of a hundred inputs, how many each target gets."""


def fuzz(name: str, corpus: str, options: list[str]) -> None:
    """Fuzz one target in this process."""
    import atheris

    with atheris.instrument_imports(include=["sherd"]):
        from foreign_bytes import try_one
    logging.disable()
    try_one(name, b"")  # starts what is slow to start
    bounds = ["-timeout=25", "-rss_limit_mb=2048", "-max_len=30000"]
    atheris.Setup(
        [sys.argv[0], *bounds, *options, f"{corpus}/{name}"], lambda raw: try_one(name, raw)
    )
    atheris.Fuzz()


def fuzz_all(corpus: str, runs: int, record: Path | None) -> int:
    """Fuzz every target in processes of their own; whether one failed."""
    told, failed = {}, 0
    for name, share in SHARES.items():
        began = time.monotonic()
        command = [sys.executable, __file__, "--target", name, corpus]
        command += [f"-runs={runs * share // 100}", f"-artifact_prefix={name}-"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        done = re.search(r"Done (\d+) runs", ran.stderr)
        rss = re.findall(r"rss: (\d+)Mb", ran.stderr)
        told[name] = {
            "inputs": int(done[1]) if done else 0,
            "seconds": round(time.monotonic() - began),
            "MiB": int(rss[-1]) if rss else None,
            "failed": ran.returncode != 0,
        }
        if ran.returncode:
            failed = 1
            sys.stderr.write(ran.stderr[-3000:])
        if record is not None:
            record.write_text(json.dumps(told, indent=1), encoding="utf-8")
    total = sum(each["inputs"] or 0 for each in told.values())
    sys.stdout.write(json.dumps({"inputs": total, "targets": told}, indent=1) + "\n")
    return failed


if __name__ == "__main__":
    if sys.argv[1] == "--target":
        fuzz(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        place = Path(sys.argv[3]) if len(sys.argv) > 3 else None
        raise SystemExit(fuzz_all(sys.argv[1], int(sys.argv[2]), place))
