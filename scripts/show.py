"""The output of the demos: headings, commands with what they print, and which steps succeeded."""

import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Sequence

from lab import Namespace

BOLD, DIM, GREEN, RED, PLAIN = ("\033[1m", "\033[2m", "\033[32m", "\033[31m", "\033[0m")
if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
    BOLD = DIM = GREEN = RED = PLAIN = ""


def say(text: str = "", indent: int = 4) -> None:
    for line in text.splitlines() or [""]:
        print(" " * indent + line if line else "", flush=True)


class Show:
    """Runs commands on the hosts, shows them, and counts the steps that failed."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.began, self.number = time.monotonic(), 0

    def heading(self, text: str) -> None:
        self.number += 1
        print(f"\n{BOLD}{self.number}. {text}{PLAIN} {DIM}[{time.monotonic() - self.began:.0f} s]{PLAIN}", flush=True)

    def command(self, host: Namespace, *args: object, lines: str | None = None, timeout: float = 20) -> str:
        print(f"  {DIM}{host.short}${PLAIN} {shlex.join(map(str, args))}", flush=True)
        out = host.sh(*args, check=False, timeout=timeout)
        shown = [x for x in out.splitlines() if x.strip() and (lines is None or re.search(lines, x))]
        say("\n".join(shown) or "(no output)")
        return out

    def expect(self, what: str, held: object) -> None:
        mark = f"{GREEN}ok{PLAIN}" if held else f"{RED}FAILED{PLAIN}"
        print(f"  {mark}: {what}", flush=True)
        if not held:
            self.failed.append(what)

    def verdict(self, kept: object) -> int:
        """The last lines; the exit status."""
        took = time.monotonic() - self.began
        if self.failed:
            print(f"\n{RED}{len(self.failed)} of the steps failed:{PLAIN}")
            for what in self.failed:
                say(what.splitlines()[0])
            return 1
        print(f"\n{GREEN}All steps succeeded{PLAIN}, in {took:.0f} s." + ("" if kept else " Nothing is left behind."))
        return 0


def as_root(name: str, arguments: Sequence[str]) -> None:
    """Network namespaces need root: asks sudo for it. Returns when this is root; exits when it cannot be."""
    if os.geteuid() == 0:
        return
    if shutil.which("sudo"):
        print(f"{name}: network namespaces need root; asking sudo", flush=True)
        keep = [f"{k}={v}" for k, v in os.environ.items() if k in ("KEEP", "VALIANT", "CARGO_TARGET_DIR", "NO_COLOR")]
        os.execvp("sudo", ["sudo", *keep, sys.executable, *arguments])
    sys.exit(f"{name}: network namespaces need root, and there is no sudo: run this as root")
