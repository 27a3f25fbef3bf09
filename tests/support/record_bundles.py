"""Record one bundle of every kind as today's code writes it.

    PYTHONPATH=.:tests/support python tests/support/record_bundles.py FOLDER

Later versions must go on reading and verifying what lies in FOLDER: see
``tests/contract/test_recorded_bundles.py``.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from consortium import Consortium
from releases import KINDS
from tests.federation.test_signed_releases import released
from tests.federation.test_sum_rounds import add_owners, check_released, open_round

import sherd
from sherd.federation.protocol.joint_plan import Kind

OTHER_FORMS = (("dp", "csv"), ("slice", "csv.gz"), ("mondrian", "feather"), ("dp-graph", "csv"))


def record(target: Path) -> None:
    """Make every kind, some in other formats, one signed, and joint ones signed by all."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        os.environ["SHERD_LEDGER"] = str(place / "ledger.db")
        for kind, make in KINDS.items():
            (place / kind).mkdir()
            make(place / kind / "out")
            shutil.copytree(place / kind / "out", target / kind.replace(" ", "-"))
        for kind, form in OTHER_FORMS:
            again = sherd.Release.load(place / kind / "out")
            again.save(target / f"{kind}-{form.replace('.', '-')}", format=form)
        sherd.make_key(place / "owner.key")
        shutil.copytree(target / "dp-um", target / "signed")
        sherd.sign(target / "signed", place / "owner.key")
        shutil.copy(place / "owner.key.pub", target / "signed.key.pub")
        for kind in Kind:
            consortium = Consortium(place / f"joint {kind}")
            folder = released(consortium, kind)
            shutil.copytree(folder, target / f"joint-signed-{kind}")
            consortium.close()
        consortium = Consortium(place / "joint model")
        add_owners(consortium, 40, 40)
        open_round(consortium)
        consortium.settle()
        check_released(consortium)
        shutil.copytree(consortium.aggregator.folder("r1"), target / "joint-signed-model")
        consortium.close()


if __name__ == "__main__":
    record(Path(sys.argv[1]))
