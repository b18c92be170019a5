"""Random configurations of common element classes, with random packets; the same seed makes the same configuration.

A configuration is a list of chains. A chain is a list of steps: an element and, for its outputs but the first, further chains.
The last step has no output. So a configuration can be made smaller by leaving out chains or steps (differ.py).
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

# What packets are: an IP packet whose header is marked, or an Ethernet frame with one.
IP, ETHER = "ip", "ether"
PUSH, PULL = "push", "pull"


@dataclass(frozen=True)
class Step:
    """An element, and where its outputs but the first lead."""

    name: str
    text: str
    sides: tuple["Chain", ...] = ()
    # Handlers that are read at the end.
    handlers: tuple[str, ...] = ()
    # Whether leaving it out leaves packets and push and pull as they are.
    removable: bool = True


Chain = tuple[Step, ...]


@dataclass(frozen=True)
class Configuration:
    """Chains, and the files that they read."""

    chains: tuple[Chain, ...]
    files: dict[str, str] = field(default_factory=dict)
    seconds: int = 3

    def steps(self) -> Iterator[Step]:
        """All steps."""
        def walk(chain: Chain) -> Iterator[Step]:
            for step in chain:
                yield step
                for side in step.sides:
                    yield from walk(side)
        for chain in self.chains:
            yield from walk(chain)

    def text(self) -> str:
        """The configuration in Click's language."""
        lines = [f"{step.name} :: {step.text};" for step in self.steps()]

        def connect(chain: Chain) -> None:
            for before, after in zip(chain, chain[1:]):
                lines.append(f"{before.name} -> {after.name};")
            for step in chain:
                for output, side in enumerate(step.sides, 1):
                    lines.append(f"{step.name} [{output}] -> {side[0].name};")
                    connect(side)
        for chain in self.chains:
            connect(chain)
        lines.append(f"DriverManager(wait {self.seconds}s, stop);")
        return "\n".join(lines) + "\n"

    def handlers(self) -> list[str]:
        """What is read at the end."""
        return [f"{step.name}.{handler}" for step in self.steps() for handler in step.handlers]


@dataclass(frozen=True)
class Kind:
    """A class: how its arguments are made, where it can stand, and what comes out."""

    make: Callable[[random.Random], str]
    needs: str | None = None
    becomes: str | None = None
    mode: str | None = None
    mode_after: str | None = None
    # Outputs; with a function: as many as the text says.
    outputs: int | Callable[[str], int] = 1
    handlers: tuple[str, ...] = ()


def address(r: random.Random) -> str:
    """One of few addresses, so that rules and routes meet packets."""
    return f"10.{r.randrange(3)}.{r.randrange(2)}.{r.randrange(1, 5)}"


def ether(r: random.Random) -> str:
    """One of few Ethernet addresses."""
    return f"02:00:00:00:00:{r.randrange(1, 6):02x}"


def ports(r: random.Random) -> int:
    """One of few ports."""
    return r.choice((1, 53, 80, 443, 2000))


def rule(r: random.Random) -> str:
    """A pattern of IPClassifier and IPFilter."""
    return r.choice((
        lambda: f"src host {address(r)}",
        lambda: f"dst net 10.{r.randrange(3)}.0.0/16",
        lambda: f"src or dst port {ports(r)}",
        lambda: f"tcp dst port {ports(r)}",
        lambda: f"udp && src port > {ports(r)}",
        lambda: r.choice(("tcp", "udp", "icmp", "tcp opt syn", "icmp type echo", "ip unfrag", "ip frag")),
        lambda: f"ip ttl < {r.choice((2, 30, 64))}",
        lambda: f"ip dscp {r.randrange(4)}",
        lambda: f"not ({rule(r)})",
        lambda: f"({rule(r)}) or ({rule(r)})",
        lambda: f"({rule(r)}) and ({rule(r)})",
    ))()


def bytes_at(r: random.Random) -> str:
    """A pattern of Classifier."""
    return f"{r.randrange(24)}/{r.randrange(256):02x}%{r.randrange(256):02x}"


def routes(r: random.Random) -> str:
    """Routes to three outputs, the last one the default route."""
    prefixes = {f"10.{r.randrange(3)}.{r.randrange(2)}.0/{r.choice((24, 16, 23))}" for _ in range(3)}
    lines = []
    for prefix in sorted(prefixes):
        first, length = prefix.split("/")
        base = first if length == "24" else ".".join(first.split(".")[:2]) + ".0.0"
        gateway = r.choice(("", f" {address(r)}"))
        lines.append(f"{base}/{length}{gateway} {r.randrange(3)}")
    lines = [line for at, line in enumerate(lines) if line.split()[0] not in [other.split()[0] for other in lines[:at]]]
    return ", ".join([*lines, "0.0.0.0/0 2"])


def words(text: str) -> int:
    """How many arguments a text has."""
    return text.count(",") + 1


def flag(r: random.Random) -> str:
    """A truth value as configurations write it."""
    return r.choice(("true", "false"))


KINDS: dict[str, Kind] = {
    "Null": Kind(lambda r: ""),
    "Counter": Kind(lambda r: "", handlers=("count", "byte_count")),
    "Print": Kind(lambda r: f"p{r.randrange(9)}, {r.choice((-1, 0, 8, 24))}, CONTENTS {r.choice(('true', 'false', 'ASCII'))}, "
                  f"TIMESTAMP {flag(r)}"),
    "Paint": Kind(lambda r: str(r.randrange(4))),
    "SetAnnoByte": Kind(lambda r: f"{r.choice(('PAINT', '17', '5'))}, {r.randrange(4)}"),
    "CheckPaint": Kind(lambda r: str(r.randrange(4)), outputs=2, mode=PUSH, handlers=("drops",)),
    "PaintTee": Kind(lambda r: str(r.randrange(4)), outputs=2, mode=PUSH),
    "PaintSwitch": Kind(lambda r: "", outputs=3, mode=PUSH),
    "Tee": Kind(lambda r: str(r.randrange(2, 4)), outputs=int, mode=PUSH),
    "PullTee": Kind(lambda r: "2", outputs=2, mode=PULL),
    "CheckLength": Kind(lambda r: f"{r.choice((40, 60, 100, 500))}", outputs=2, mode=PUSH),
    "RoundRobinSwitch": Kind(lambda r: "", outputs=2, mode=PUSH),
    "HashSwitch": Kind(lambda r: f"{r.randrange(20)}, {r.randrange(1, 5)}", outputs=3, mode=PUSH),
    "Switch": Kind(lambda r: str(r.randrange(2)), outputs=2, mode=PUSH, handlers=("switch",)),
    "StaticSwitch": Kind(lambda r: str(r.randrange(2)), outputs=2, mode=PUSH),
    "Classifier": Kind(lambda r: f"{bytes_at(r)}, {bytes_at(r)} {bytes_at(r)}, -", outputs=words, mode=PUSH),
    "SetTimestamp": Kind(lambda r: ""),
    "Align": Kind(lambda r: r.choice(("4, 0", "4, 2", "2, 1"))),
    "Queue": Kind(lambda r: r.choice(("", "5", "20")), mode=PUSH, mode_after=PULL,
                  handlers=("length", "drops", "highwater_length", "capacity")),
    "SimpleQueue": Kind(lambda r: r.choice(("", "7")), mode=PUSH, mode_after=PULL, handlers=("length", "drops")),
    "FrontDropQueue": Kind(lambda r: r.choice(("", "6")), mode=PUSH, mode_after=PULL, handlers=("length", "drops")),
    "Unqueue": Kind(lambda r: r.choice(("", "2", "BURST 3", "LIMIT 9")), mode=PULL, mode_after=PUSH, handlers=("count",)),
    "RatedUnqueue": Kind(lambda r: str(r.choice((5, 10, 100, 1000))), mode=PULL, mode_after=PUSH, handlers=("rate",)),
    "BandwidthRatedUnqueue": Kind(lambda r: r.choice(("1kBps", "10kBps", "100kbps")), mode=PULL, mode_after=PUSH),
    "DelayUnqueue": Kind(lambda r: r.choice(("10ms", "0.5", "1")), mode=PULL, mode_after=PUSH),
    "TimedUnqueue": Kind(lambda r: f"{r.choice(('0.1', '20ms'))}, {r.randrange(1, 4)}", mode=PULL, mode_after=PUSH),
    "LinkUnqueue": Kind(lambda r: f"{r.choice(('1ms', '100ms'))}, {r.choice(('10kBps', '1MBps'))}", mode=PULL, mode_after=PUSH),
    "Shaper": Kind(lambda r: str(r.choice((5, 20, 1000))), mode=PULL),
    "BandwidthShaper": Kind(lambda r: r.choice(("1kBps", "50kbps")), mode=PULL),
    "DelayShaper": Kind(lambda r: r.choice(("10ms", "0.3")), mode=PULL),
    "Meter": Kind(lambda r: r.choice(("5, 20", "10, 100")), outputs=3, mode=PUSH, handlers=("rate",)),
    "RatedSplitter": Kind(lambda r: str(r.choice((1, 10, 100))), outputs=2, mode=PUSH),
    "CheckIPHeader": Kind(lambda r: r.choice(("", "CHECKSUM false", "VERBOSE true")), needs=IP, outputs=2, mode=PUSH, handlers=("drops",)),
    "MarkIPHeader": Kind(lambda r: "", needs=IP),
    "DecIPTTL": Kind(lambda r: r.choice(("", "MULTICAST false")), needs=IP, outputs=2, mode=PUSH, handlers=("drops",)),
    "IPClassifier": Kind(lambda r: f"{rule(r)}, {rule(r)}, -", needs=IP, outputs=words, mode=PUSH),
    "IPFilter": Kind(lambda r: f"0 {rule(r)}, 1 {rule(r)}, {r.choice(('allow', '1', 'drop'))} all", needs=IP, outputs=2, mode=PUSH),
    "SetIPDSCP": Kind(lambda r: str(r.randrange(64)), needs=IP),
    "SetIPECN": Kind(lambda r: str(r.randrange(4)), needs=IP),
    "MarkIPCE": Kind(lambda r: r.choice(("", "true")), needs=IP, handlers=("drops",)),
    "SetIPChecksum": Kind(lambda r: "", needs=IP),
    "IPMirror": Kind(lambda r: r.choice(("", "false")), needs=IP),
    "IPPrint": Kind(lambda r: f"i{r.randrange(9)}, TIMESTAMP {flag(r)}, ID {flag(r)}, TTL {flag(r)}, TOS {flag(r)}, "
                    f"LENGTH {flag(r)}", needs=IP),
    "GetIPAddress": Kind(lambda r: r.choice(("12", "16")), needs=IP),
    "SetIPAddress": Kind(address, needs=IP),
    "StoreIPAddress": Kind(lambda r: f"{address(r)}, {r.choice(('src', 'dst', '12'))}", needs=IP),
    "FixIPSrc": Kind(address, needs=IP),
    "IPFragmenter": Kind(lambda r: f"{r.choice((68, 100, 576, 1500))}, {flag(r)}", needs=IP, outputs=2, mode=PUSH,
                         handlers=("drops", "fragments")),
    "IPReassembler": Kind(lambda r: "", needs=IP),
    "ICMPError": Kind(lambda r: f"{address(r)}, " + r.choice(("unreachable, host", "timeexceeded, transit", "redirect, net", "3, 1")),
                      needs=IP),
    "ICMPPingResponder": Kind(lambda r: "", needs=IP, outputs=2, mode=PUSH),
    "StaticIPLookup": Kind(routes, needs=IP, outputs=3, mode=PUSH, handlers=("table",)),
    "LinearIPLookup": Kind(routes, needs=IP, outputs=3, mode=PUSH),
    "RadixIPLookup": Kind(routes, needs=IP, outputs=3, mode=PUSH),
    "DirectIPLookup": Kind(routes, needs=IP, outputs=3, mode=PUSH),
    "SortedIPLookup": Kind(routes, needs=IP, outputs=3, mode=PUSH),
    "IPEncap": Kind(lambda r: f"{r.choice(('4', 'ipip'))}, {address(r)}, {address(r)}, TTL {r.randrange(1, 255)}", needs=IP),
    "UDPIPEncap": Kind(lambda r: f"{address(r)}, {ports(r)}, {address(r)}, {ports(r)}, {flag(r)}", needs=IP),
    "IPGWOptions": Kind(address, needs=IP, outputs=2, mode=PUSH, handlers=("drops",)),
    "IPRewriter": Kind(lambda r: r.choice((f"pattern {address(r)} 2000-65535# - - 0 1", "keep 0 1", f"pattern - - {address(r)} 80 1 0",
                                           "nochange 1")), needs=IP, outputs=2, mode=PUSH, handlers=("table_size",)),
    "ICMPPingRewriter": Kind(lambda r: f"pattern {address(r)} 0-65535# - - 0 1", needs=IP, outputs=2, mode=PUSH, handlers=("table_size",)),
    "AggregateIPFlows": Kind(lambda r: f"ICMP {flag(r)}", needs=IP),
    "AggregateIP": Kind(lambda r: r.choice(("ip src", "ip dst/24", "ip proto")), needs=IP),
    "AggregateCounter": Kind(lambda r: f"BYTES {flag(r)}", handlers=("nagg", "count")),
    "EraseIPPayload": Kind(lambda r: "", needs=IP),
    "TruncateIPPayload": Kind(lambda r: str(r.choice((0, 8, 40))), needs=IP),
    "EtherEncap": Kind(lambda r: f"0x0800, {ether(r)}, {ether(r)}", needs=IP, becomes=ETHER),
    "EtherMirror": Kind(lambda r: "", needs=ETHER),
    "EtherRewrite": Kind(lambda r: f"{ether(r)}, {ether(r)}", needs=ETHER),
    "StoreEtherAddress": Kind(lambda r: f"{ether(r)}, {r.choice(('src', 'dst'))}", needs=ETHER),
    "HostEtherFilter": Kind(lambda r: f"{ether(r)}, DROP_OWN {flag(r)}", needs=ETHER, outputs=2, mode=PUSH, handlers=("drops",)),
    "SetCRC32": Kind(lambda r: "", needs=ETHER),
    "Strip": Kind(lambda r: "14", needs=ETHER, becomes=IP),
}

PROTOCOLS = ("T", "U", "I")

# Classes whose output depends on how many packets are processed together, or on which worker does it: they number packets, take
# them in turn, or depend on time.
RESTLESS = {"RoundRobinSwitch", "RatedSplitter", "Meter", "IPRewriter", "ICMPPingRewriter", "AggregateIPFlows", "SetTimestamp",
            "UDPIPEncap", "IPEncap", "ICMPError", "ICMPPingResponder", "IPFragmenter",
            *(name for name, kind in KINDS.items() if kind.mode_after or kind.mode == PULL)}


class Generator:
    """Makes one configuration."""

    def __init__(self, seed: int, calm: bool = False) -> None:
        self.random = random.Random(seed)
        self.calm = calm
        self.count = 0
        self.files: dict[str, str] = {}
        # How many steps there may still be; branches would make more and more.
        self.left = self.random.randrange(3, 22)

    def name(self, prefix: str) -> str:
        """A new name."""
        self.count += 1
        return f"{prefix}{self.count}"

    def configuration(self) -> Configuration:
        """The whole."""
        chains = tuple(self.chain_from_source() for _ in range(1 if self.calm else self.random.choice((1, 1, 2, 3))))
        return Configuration(chains, self.files, self.random.choice((1, 3, 40)))

    def chain_from_source(self) -> Chain:
        """A source, what makes IP packets of what it sends, and the rest."""
        r = self.random
        start: list[Step]
        if self.calm or r.random() < 0.5:
            file = self.name("in")
            self.files[file] = self.dump()
            options = f"CHECKSUM {flag(r)}, TIMING {'false' if self.calm else flag(r)}"
            start = [Step(self.name("source"), f"FromIPSummaryDump({file}, STOP false, {options})", removable=False)]
        else:
            data = "".join(r.choice("abcdefgh ") for _ in range(r.choice((1, 10, 60))))
            kind = r.choice(("InfiniteSource", "RatedSource"))
            rate = f"RATE {r.choice((5, 10, 100))}, " if kind == "RatedSource" else f"BURST {r.choice((1, 1, 3))}, "
            start = [
                Step(self.name("source"), f'{kind}(DATA "{data}", {rate}LIMIT {r.randrange(1, 30)}, STOP false)', removable=False),
                Step(self.name("make"), f"UDPIPEncap({address(r)}, {ports(r)}, {address(r)}, {ports(r)})", removable=False)]
        return (*start, *self.chain(IP, PUSH))

    def dump(self) -> str:
        """Random packets as text."""
        r = self.random
        lines = ["!IPSummaryDump 1.3", "!data timestamp ip_src sport ip_dst dport ip_proto ip_ttl ip_id ip_tos tcp_flags payload"]
        when = 1.0
        # With several workers, simulated time goes on after a few rounds, whatever sources still have.
        for number in range(r.randrange(1, 9 if self.calm else 25)):
            when += r.choice((0, 0.001, 0.1))
            proto = r.choice(PROTOCOLS)
            sport, dport = (ports(r), ports(r)) if proto != "I" else ("-", "-")
            flags = r.choice(("S", "SA", "PA", "F", "R")) if proto == "T" else "-"
            payload = "x" * r.choice((0, 3, 40, 200))
            lines.append(f'{when:.6f} {address(r)} {sport} {address(r)} {dport} {proto} {r.choice((1, 2, 64, 255))} {number} '
                         f'{r.choice((0, 0, 2, 40))} {flags} "{payload}"')
        return "\n".join(lines) + "\n"

    def chain(self, packets: str, mode: str) -> Chain:
        """Steps from here on to a sink."""
        steps: list[Step] = []
        while self.left > 0 and self.random.random() < 0.85:
            self.left -= 1
            fitting = [name for name, kind in KINDS.items() if kind.needs in (None, packets) and kind.mode in (None, mode)
                       and not (self.calm and name in RESTLESS)]
            name = self.random.choice(fitting)
            kind = KINDS[name]
            text = kind.make(self.random)
            after = kind.mode_after or mode
            becomes = kind.becomes or packets
            outputs = kind.outputs if isinstance(kind.outputs, int) else kind.outputs(text)
            # Outputs but the first of a pull element are push.
            sides = tuple(self.chain(becomes, PUSH) for _ in range(outputs - 1))
            steps.append(Step(self.name(name.lower()), f"{name}({text})", sides, kind.handlers, becomes == packets and after == mode))
            packets, mode = becomes, after
        return (*steps, *self.sink(packets))

    def sink(self, packets: str) -> Chain:
        """Where a chain ends: what goes by is seen in a file, in a print, or in a count."""
        r = self.random
        name = self.name("sink")
        kinds = ["Discard", "ToDump", "Print"]
        if packets == IP:
            kinds.append("ToIPSummaryDump")
        kind = r.choice(kinds)
        if kind == "ToDump":
            return (Step(name, f"ToDump({name}.out, SNAPLEN 0, ENCAP {'IP' if packets == IP else 'ETHER'})", removable=False),)
        if kind == "ToIPSummaryDump":
            contents = r.sample(["timestamp", "ip_src", "ip_dst", "sport", "dport", "ip_proto", "ip_len", "ip_ttl", "ip_id", "ip_sum",
                                 "ip_tos", "ip_frag", "ip_fragoff", "payload_len", "tcp_flags", "icmp_type", "wire_len", "link"],
                                r.randrange(1, 7))
            return (Step(name, f"ToIPSummaryDump({name}.out, CONTENTS {' '.join(contents)})", removable=False),)
        end = Step(self.name("end"), "Discard", handlers=("count",), removable=False)
        if kind == "Print":
            return (Step(name, f"Print({name}, -1, TIMESTAMP {flag(r)})"), end)
        return (end,)


def generate(seed: int, calm: bool = False) -> Configuration:
    """The configuration of a seed; a calm one has only what does not depend on batches and workers."""
    return Generator(seed, calm).configuration()


def without(configuration: Configuration) -> Iterator[Configuration]:
    """Smaller configurations, the much smaller ones first."""
    chains = configuration.chains
    if len(chains) > 1:
        for at in range(len(chains)):
            yield replace(configuration, chains=(*chains[:at], *chains[at + 1:]))
    for at, chain in enumerate(chains):
        for smaller in smaller_chains(chain):
            yield replace(configuration, chains=(*chains[:at], smaller, *chains[at + 1:]))
    for file, text in configuration.files.items():
        lines = text.splitlines(keepends=True)
        packets = lines[2:]
        for size in (len(packets) // 2, 1):
            for first in range(0, len(packets), size or 1):
                if 0 < size < len(packets):
                    rest = [*lines[:2], *packets[:first], *packets[first + size:]]
                    yield replace(configuration, files={**configuration.files, file: "".join(rest)})


def smaller_chains(chain: Chain) -> Iterator[Chain]:
    """A chain that ends early, without a step, or with a smaller side."""
    for at, step in enumerate(chain):
        if 0 < at < len(chain) - 1:
            yield (*chain[:at], Step(f"cut{step.name}", "Discard", handlers=("count",), removable=False))
        if step.removable and len(chain) > at + 1:
            yield (*chain[:at], *chain[at + 1:])
        for output, side in enumerate(step.sides):
            short = Step(f"cut{output}{step.name}", "Discard", removable=False)
            candidates = [(short,)] if side != (short,) and len(side) > 1 else []
            if step.removable and not step.text.startswith("PullTee("):
                # The side goes on where the step was.
                yield (*chain[:at], *side)
            for smaller in [*candidates, *smaller_chains(side)]:
                sides = (*step.sides[:output], smaller, *step.sides[output + 1:])
                yield (*chain[:at], replace(step, sides=sides), *chain[at + 1:])
