"""A disk that forgets what was not synced when the power goes, and that can be full.

``power.c``, loaded before everything else, tells of every ``fsync``. What a file held then is
what it holds after a power cut; what came later is there, is not, or is there by half. Names
in a folder last once the folder was synced. Either all names that were not synced are lost or
none, since file systems keep their order.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

BLOCK = 4096
SOURCE = Path(__file__).with_name("power.c")
Tree = dict[Path, bytes | None]
"""Files by their paths below a folder; None for a folder."""


def build(folder: Path) -> Path | None:
    """The library to be loaded before others; None where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    made = folder / "power.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-w", "-o", str(made), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return made


class Disk:
    """What is on the disk for good, below one folder."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder = folder
        self._library = ctypes.CDLL(str(library))
        kind = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_int)
        self._callback = kind(self._told)  # kept, or it would be collected
        self._content: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._armed: dict[Path, tuple[int, random.Random]] = {}
        self.left: dict[Path, Tree] = {}
        """What is left of folders whose power went."""
        self.syncs = 0
        self._library.sherd_watch(self._callback)

    def close(self) -> None:
        """Watch no longer."""
        self._library.sherd_watch(ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_int)(0))
        self.fill(None)

    def fill(self, folder: Path | None) -> None:
        """Leave no room below a folder, or give it back."""
        self._library.sherd_fill(b"" if folder is None else str(folder).encode())

    def settle(self, folder: Path) -> None:
        """Everything below a folder is on the disk for good."""
        for place, folders, files in os.walk(folder):
            known = self._names[Path(place).stat().st_ino] = {}
            for name in (*folders, *files):
                path = Path(place, name)
                known[name] = path.stat().st_ino
                if name in files:
                    self._content[known[name]] = path.read_bytes()

    def arm(self, folder: Path, syncs: int, dice: random.Random) -> None:
        """Let the power go below a folder after so many syncs."""
        self._armed[folder] = (syncs, dice)

    def disarm(self, folder: Path) -> None:
        """Let the power be."""
        self._armed.pop(folder, None)

    def _told(self, fd: int, done: int) -> None:
        try:
            path = Path(f"/proc/self/fd/{fd}").readlink()
        except OSError:
            return
        if not path.is_relative_to(self.folder):
            return
        if not done:
            self._strike(path)
        elif path.is_dir():
            found = list(os.scandir(path))
            self._names[path.stat().st_ino] = {each.name: each.inode() for each in found}
            for each in found:
                if each.is_dir(follow_symlinks=False):
                    self._names.setdefault(each.inode(), {})
        else:
            self.syncs += 1
            self._content[os.fstat(fd).st_ino] = Path(f"/proc/self/fd/{fd}").read_bytes()

    def _strike(self, path: Path) -> None:
        for folder, (syncs, dice) in list(self._armed.items()):
            if path.is_relative_to(folder):
                self._armed[folder] = (syncs - 1, dice)
                if syncs <= 1:
                    self.disarm(folder)
                    self.left[folder] = self._after(folder, dice)

    def _after(self, folder: Path, dice: random.Random) -> Tree:
        """A folder as it may be found once the power is back."""
        live = dice.random() < 0.5
        if live:
            return {
                path.relative_to(folder): None
                if path.is_dir()
                else self._of_file(path.stat().st_ino, path.read_bytes(), dice)
                for path in sorted(folder.rglob("*"))
            }
        now = {path.stat().st_ino: path for path in folder.rglob("*") if path.is_file()}
        tree: Tree = {}
        self._walk(folder.stat().st_ino, Path(), tree, now, dice)
        return tree

    def _walk(
        self, number: int, at: Path, tree: Tree, now: dict[int, Path], dice: random.Random
    ) -> None:
        for name, inner in self._names.get(number, {}).items():
            if inner in self._names and inner not in now:
                tree[at / name] = None
                self._walk(inner, at / name, tree, now, dice)
            else:
                found = now[inner].read_bytes() if inner in now else None
                tree[at / name] = self._of_file(inner, found, dice)

    def _of_file(self, number: int, live: bytes | None, dice: random.Random) -> bytes:
        """What a file holds: what was synced, what was written later, or some blocks of it."""
        synced = self._content.get(number, b"")
        if live is None or live == synced or dice.random() < 0.4:
            return synced
        if dice.random() < 0.4:
            return live
        mixed = bytearray(synced.ljust(len(live), b"\0")[: max(len(live), len(synced))])
        for start in range(0, len(live), BLOCK):
            if dice.random() < 0.5:
                mixed[start : start + BLOCK] = live[start : start + BLOCK]
        return bytes(mixed)

    def bring_back(self, folder: Path) -> bool:
        """Make a folder what the power cut left of it; whether there was one."""
        tree = self.left.pop(folder, None)
        if tree is None:
            return False
        shutil.rmtree(folder)
        folder.mkdir(mode=0o700)
        for path, content in tree.items():
            if content is None:
                (folder / path).mkdir(mode=0o700)
            else:
                (folder / path).write_bytes(content)
                (folder / path).chmod(0o600)
        self.settle(folder)
        return True
