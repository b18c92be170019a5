"""Tables of routes and addresses for the benchmarks of route lookup, and the program that measures it."""

import json
import random
import subprocess

from lab import ROOT
from packets import LENGTHS

ADDRESSES = 1 << 20


def dotted(number: int) -> str:
    """A number as an IPv4 address."""
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


def lengths(kind: str, count: int, rng: random.Random) -> list[int]:
    """The prefix length of each of so many routes."""
    if kind == "backbone":
        return rng.choices(list(LENGTHS), list(LENGTHS.values()), k=count)
    chosen: list[int] = []
    for length in range(1, 33):
        chosen += [length] * min(1 << length, (count - len(chosen)) // (33 - length))
    return chosen


def write_files(kind: str, count: int, directory: str) -> tuple[str, str, int]:
    """Route and address files in dpdk-test-fib's format; their names and how many /24s hold longer prefixes."""
    rng = random.Random(count)
    routes: set[tuple[int, int]] = set()
    for wanted in lengths(kind, count, rng):
        length = wanted
        # A full length has no room for as many different ones as wanted: the next length takes the rest.
        while True:
            prefix = rng.getrandbits(length) << (32 - length), length
            if prefix not in routes:
                routes.add(prefix)
                break
            length = min(length + (rng.random() < 0.1), 32)
    order = sorted(routes)
    rng.shuffle(order)
    route_file, address_file = f"{directory}/{kind}-{count}.routes", f"{directory}/{kind}-{count}.addresses"
    with open(route_file, "w", encoding="ascii") as file:
        for address, length in order:
            file.write(f"{dotted(address)}/{length} {rng.randrange(1, 30000)}\n")
    with open(address_file, "w", encoding="ascii") as file:
        for i in range(ADDRESSES):
            address, length = order[i % len(order)]
            address |= rng.getrandbits(32 - length) if length < 32 else 0
            # dpdk-test-fib takes the bytes of these addresses as they come and looks up numbers in host order: written
            # in reverse, they are the addresses that are meant.
            file.write(dotted(int.from_bytes(address.to_bytes(4, "little"), "big")) + "\n")
    return route_file, address_file, len({address >> 8 for address, length in order if length > 24})


def build() -> str:
    """The measuring program."""
    done = subprocess.run(["cargo", "build", "--release", "-p", "valiant-tables", "--example", "lpm", "--message-format=json"],
                          cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    return next(m["executable"] for m in messages if m.get("executable"))
