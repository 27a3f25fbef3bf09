"""The image of deploy/, built and run: an aggregator and two owners in containers.

Its base image is made here of Debian 12, whose Python is 3.11, and of the libraries that the lock
names, so that no registry is asked; ``SHERD_IMAGE_BASE`` names a base image to pull instead.
Containers are in the machine's own network, where everybody listens on loopback alone.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import resource
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from people import SCHEMA, people
from processes import free_port, make_database, wait_until

import sherd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
SECRET = "a-secret-that-stays-out"
PLANTED = (
    "deploy/database_password.txt",
    "out/demo/aggregator/key.pem",
    ".git/config",
    ".env",
    "src/sherd/__pycache__/secret.pyc",
    "src/sherd/methods/kernels/secret",
    "requirements/secret.txt",
)
"""Where people have files that no image must hold."""

USER = 10001


class Containers:
    """Podman and buildah with a storage of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._storage = ["--root", str(folder / "storage"), "--runroot", str(folder / "running")]
        self._runtime = ["--runtime", "runc"] if shutil.which("runc") else []
        self._names: list[str] = []

    def build(self, *words: str) -> str:
        """What buildah says."""
        return _run("buildah", *self._storage, *words)

    def podman(self, *words: str) -> str:
        """What podman says."""
        return _run("podman", *self._storage, *self._runtime, *words)

    def confined(self, home: Path) -> list[str]:
        """Options of a container as the compose file has them: it writes to its folder alone."""
        files = min(16384, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        return [
            "--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges",
            "--tmpfs=/tmp", "--network", "host", "--ulimit", f"nofile={files}:{files}", "--ulimit",
            "nproc=2048:2048", "--volume", f"{home}:/var/lib/sherd",
        ]  # fmt: skip

    def once(self, home: Path, *command: str) -> str:
        """Run a command to its end."""
        return self.podman("run", "--rm", *self.confined(home), "sherd", *command)

    def start(self, name: str, home: Path, *command: str) -> None:
        """Start a service."""
        self._names.append(name)
        self.podman("run", "--detach", "--name", name, *self.confined(home), "sherd", *command)

    def stop(self, name: str) -> int:
        """How a service ends that is asked to, as the image says; it is killed after a minute."""
        self.podman("stop", "--time", "60", name)
        return int(self.podman("inspect", name, "--format", "{{.State.ExitCode}}"))

    def close(self) -> None:
        """Remove everything."""
        for name in self._names:
            with contextlib.suppress(AssertionError):
                self.podman("rm", "--force", name)


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout.strip()


@pytest.fixture(scope="module")
def containers(
    tmp_path_factory: pytest.TempPathFactory, require_or_skip: Callable[[str], None]
) -> Iterator[Containers]:
    """Containers with an image ``sherd`` of this tree, in which secrets lie about."""
    for program in ("buildah", "podman", "debootstrap"):
        if shutil.which(program) is None:
            require_or_skip(f"{program} is not installed")
    if os.geteuid() != 0:
        require_or_skip("debootstrap needs root")
    folder = tmp_path_factory.mktemp("image")
    made = Containers(folder)
    options = _base(made)
    context = folder / "context"
    ignored = shutil.ignore_patterns(".venv*", ".git", "out", "__pycache__", "kernels", ".*_cache")
    shutil.copytree(ROOT, context, ignore=ignored)
    for place in PLANTED:
        (context / place).parent.mkdir(parents=True, exist_ok=True)
        (context / place).write_text(SECRET)
    recipe = str(context / "deploy" / "Containerfile")
    made.build(
        "bud", "--isolation", "chroot", *options, "--tag", "sherd", "--file", recipe, str(context)
    )
    yield made
    made.close()
    made.build("rm", "--all")
    made.build("rmi", "--all", "--force")


def _base(made: Containers) -> list[str]:
    """Options of a build that name its base image, and where its libraries come from."""
    given = os.environ.get("SHERD_IMAGE_BASE")
    if given:
        return ["--build-arg", f"BASE={given}"]
    system, wheels = made.folder / "system", made.folder / "wheels"
    parts = "--include=python3,python3-venv,python-is-python3,ca-certificates"
    _run("debootstrap", "--variant=minbase", parts, "bookworm", str(system))
    container = made.build("from", "scratch")
    made.build("add", "--quiet", container, str(system), "/")
    made.build("commit", "--quiet", container, "base-of-sherd")
    shutil.rmtree(system)
    _run(
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes",
        "--only-binary", ":all:", "--python-version", "3.11", "--dest", str(wheels),
        "--requirement", "requirements/image.lock",
    )  # fmt: skip
    settings = made.folder / "pip.conf"
    settings.write_text("[global]\nno-index = true\nfind-links = /wheels\n")
    volumes = [f"{wheels}:/wheels:ro", f"{settings}:/etc/pip.conf:ro"]
    mounted = [word for volume in volumes for word in ("--volume", volume)]
    return ["--pull-never", "--build-arg", "BASE=localhost/base-of-sherd", *mounted]


def test_nothing_but_the_package_is_in_the_image(containers: Containers) -> None:
    """No layer holds what lay beside the package, and files of the image are not its user's."""
    saved = containers.folder / "saved.tar"
    containers.podman("save", "--quiet", "--format", "docker-archive", "-o", str(saved), "sherd")
    layers, names = 0, set()
    with tarfile.open(saved) as archive:
        for member in archive:
            content = archive.extractfile(member)
            data = b"" if content is None else content.read()
            data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
            assert SECRET.encode() not in data, member.name
            if member.name.endswith(".tar") and content is not None:
                layers += 1
                path = containers.folder / "layer.tar"
                path.write_bytes(data)
                with tarfile.open(path) as layer:
                    names |= {each.name for each in layer}
    assert layers >= 3
    assert any(name.endswith("/sherd/federation/owner/agent.py") for name in names)
    assert not [name for name in names if name.startswith("src/")]
    config = json.loads(containers.podman("inspect", "--type", "image", "sherd"))[0]["Config"]
    assert config["User"] == str(USER)
    assert config["StopSignal"] == "SIGTERM"


def _folder(containers: Containers, name: str) -> Path:
    folder = containers.folder / name
    folder.mkdir(mode=0o700)
    os.chown(folder, USER, USER)
    return folder


def _told(said: str) -> Any:
    return json.loads(said)


def test_a_round_of_containers(containers: Containers, postgresql: str) -> None:
    """An aggregator on PostgreSQL and two owners release a table, and end well on SIGTERM."""
    port, database = free_port(), make_database(postgresql, "of_the_image")
    registry, url = _folder(containers, "registry"), f"https://127.0.0.1:{port}"
    aggregator = ("aggregator", "--home", "/var/lib/sherd/aggregator")

    def operate(*words: str) -> str:
        return containers.once(registry, "aggregator", *words, *aggregator[1:])

    told = _told(
        operate("init", "--name", "registry", "--url", url, "--database", database, "--json")
    )
    inside = containers.podman(
        "run", "--rm", *containers.confined(registry), "--entrypoint", "sh", "sherd", "-c",
        "id -u; touch /opt/sherd/x 2>/dev/null || echo read-only; grep CapEff /proc/self/status",
    )  # fmt: skip
    assert inside.split() == [str(USER), "read-only", "CapEff:", "0" * 16]
    containers.start("registry", registry, "aggregator", "serve", *aggregator[1:])
    for number, name in enumerate(("north", "south")):
        home = _folder(containers, name)
        pq.write_table(people(600, seed=number, first=number * 1000), home / "table.parquet")
        (home / "schema.yaml").write_text(SCHEMA, encoding="utf-8")
        where = ("--home", "/var/lib/sherd/owner")
        set_up = _told(
            containers.once(
                home, "owner", "init", *where, "--name", name, "--source", "table.parquet",
                "--schema", "schema.yaml", "--key", "id", "--json",
            )
        )  # fmt: skip
        shutil.copy(home / "owner" / "request.json", registry / "request.json")
        fingerprint = set_up["fingerprint"]
        operate("enrol", "request.json", "--fingerprint", fingerprint, "-o", "answer.json")
        shutil.copy(registry / "answer.json", home / "answer.json")
        os.chown(home / "answer.json", USER, USER)
        answer = ("--enrolment", "answer.json", "--fingerprint", told["fingerprint"])
        containers.once(home, "owner", "init", *where, *answer)
        rules = {
            "aggregators": {"registry": told["fingerprint"]},
            "kinds": ["horizontal"],
            "methods": ["dp-um"],
            "attributes": "all",
            "largest_epsilon": "1",
            "lifetime_epsilon": "1",
            "peers": "all",
            "approve": "automatic",
        }
        (home / "owner" / "policy.yaml").write_text(json.dumps(rules))
        containers.once(home, "owner", "check", *where)
        containers.start(name, home, "owner", "run", *where)
    both = ("--owner", "north", "--owner", "south")
    operate(
        "round", "open", "r1", "--kind", "horizontal", *both, "-m", "dp-um", "-e", "1", "-k", "50"
    )

    def signed() -> bool:
        state = _told(operate("status", "r1", "--json"))["state"]
        assert state not in ("aborted", "expired")
        there = registry / "aggregator" / "releases" / "r1"
        return state == "released" and (there / "countersignatures.json").exists()

    wait_until(signed, "the round is released and countersigned", 180)
    assert containers.stop("north") == 0
    assert containers.stop("registry") == 0
    assert containers.stop("south") == 0
    assert not sherd.verify(registry / "aggregator" / "releases" / "r1").failed
