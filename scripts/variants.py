"""Configurations for scripts/bench that are made from others: the router of the Click paper with more in it, and random IP paths."""

import pathlib
import random

from lab import ROOT

# What is put into conf/bench-sosp.click, by name: texts and what replaces them.
SOSP = {
    # A Counter behind each element on the way of a forwarded packet, 17 in all.
    "counters": [
        ("FromDevice($IN) -> HostEtherFilter($MAC0) -> c0", "FromDevice($IN) -> Counter -> HostEtherFilter($MAC0) -> Counter -> c0"),
        ("c0[2] -> Paint(1) -> ip;", "c0[2] -> Counter -> Paint(1) -> Counter -> ip;"),
        ("Strip(14) -> CheckIPHeader(", "Strip(14) -> Counter -> CheckIPHeader("),
        ("-> GetIPAddress(16) -> [0]rt;", "-> Counter -> GetIPAddress(16) -> Counter -> [0]rt;"),
        ("rt[2] -> DropBroadcasts ->", "rt[2] -> Counter -> DropBroadcasts -> Counter ->"),
        ("-> gio1 :: IPGWOptions($IP1) -> FixIPSrc($IP1)",
         "-> Counter -> gio1 :: IPGWOptions($IP1) -> Counter -> FixIPSrc($IP1) -> Counter"),
        ("-> fr1 :: IPFragmenter($MTU) -> [0]arpq1", "-> Counter -> fr1 :: IPFragmenter($MTU) -> Counter -> [0]arpq1"),
        ("arpq1 :: ARPQuerier($IP1, $MAC1) -> out1", "arpq1 :: ARPQuerier($IP1, $MAC1) -> Counter -> out1"),
        ("out1 :: Queue(1000) ->", "out1 :: Queue(1000) -> Counter ->"),
    ],
    # A VLAN tag that is put on and taken off again.
    "vlan": [("c0[2] -> Paint(1) -> ip;", "c0[2] -> VLANEncap(5) -> Paint(1) -> VLANDecap -> ip;")],
    # Elements in another order that does the same to these packets: the TTL before the checks of options and source.
    "swapped": [
        ("cp1 :: PaintTee(2) -> gio1 :: IPGWOptions($IP1) -> FixIPSrc($IP1)\n\t-> dt1 :: DecIPTTL ->",
         "dt1 :: DecIPTTL -> cp1 :: PaintTee(2) -> gio1 :: IPGWOptions($IP1) -> FixIPSrc($IP1)\n\t->"),
    ],
}

# Marks elements with a second output, which no packet of the benchmarks takes.
TWO = "2 "
# What a random path is made of, in front of the IP header check and behind it. Every packet of the benchmarks passes.
LINK = ["Counter", "Null", "Paint(3)", "EtherMirror", TWO + "Classifier(12/0800, -)", "VLANEncap(5) -> VLANDecap", "SetVLANAnno(7)"]
NETWORK = [
    "Counter", "Null", "Paint(3)", "CheckPaint(0, ANNO 20)", TWO + "PaintTee(9)", "GetIPAddress(16)", "MarkIPHeader", "CheckIPHeader",
    "CheckIPHeader2", "DropBroadcasts", "IPGWOptions(10.9.9.9)", "FixIPSrc(10.9.9.9)", "DecIPTTL", "IPFragmenter(1500)", "SetIPDSCP(3)",
    "IPFilter(allow udp, deny all)", TWO + "IPClassifier(udp, -)", "RadixIPLookup(0.0.0.0/0 0)", "SetIPChecksum",
    "Unstrip(2) -> Strip(2)", "SetIPAddress(10.1.2.3)", "StaticSwitch(0)", "Align(4, 0)",
    "StoreIPAddress(10.1.2.3, src) -> SetIPChecksum",
]


def sosp(name, directory):
    """The path of a new configuration file."""
    text = (ROOT / "conf" / "bench-sosp.click").read_text()
    for old, new in SOSP[name]:
        if text.count(old) != 1:
            raise ValueError(f"conf/bench-sosp.click has changed: {old}")
        text = text.replace(old, new)
    return written(directory, f"sosp-{name}.click", text)


def random_path(seed, directory):
    """The path of a new configuration file: an IP path of 6 to 16 elements drawn by this seed."""
    rng = random.Random(seed)
    elements = [rng.choice(LINK) for _ in range(rng.randrange(4))]
    elements += ["Strip(14)", "CheckIPHeader", *(rng.choice(NETWORK) for _ in range(rng.randrange(3, 12)))]
    text = (ROOT / "conf" / "bench-min.click").read_text()
    arrow = "in :: FromDPDKDevice($IN) -> out :: ToDPDKDevice($OUT);"
    if text.count(arrow) != 1:
        raise ValueError("conf/bench-min.click has changed")
    elements.append("EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)")
    sides = []
    for i, element in enumerate(elements):
        if element.startswith(TWO):
            elements[i] = f"e{i} :: {element.removeprefix(TWO)}"
            sides.append(f"\ne{i} [1] -> Discard;")
    path = " -> ".join(elements)
    return written(directory, f"random-{seed}.click", text.replace(arrow, arrow.replace(" -> ", f" -> {path} -> ") + "".join(sides)))


def written(directory, name, text):
    """The path of a file with this text."""
    path = pathlib.Path(directory) / name
    path.write_text(text)
    return path
