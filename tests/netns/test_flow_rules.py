"""FlowClassifier: rules in testpmd's syntax, which change while every packet is looked at."""

import time

from harness import IP, UDP, Ether, Plain, Raw, Router, Wire, case, check, equal, pair, ping
from lab import Lab
from streams import PORT, Streams

# What no rule decides about goes on too; packets of the streams are counted there.
CONFIG = """
q :: Queue(4000) -> ToDevice(eth1);
FromDevice(eth0) -> c :: FlowClassifier(RULES);
c [0] -> first :: Counter -> q;
c [1] -> second :: Counter -> q;
c [2] -> kind :: Classifier(23/11 36/PORT, -);
kind [0] -> missed :: Counter -> q;
kind [1] -> q;
FromDevice(eth1) -> Queue(4000) -> ToDevice(eth0);
"""


def to_queue(queue: int, port: int = PORT) -> str:
    return f"pattern eth / ipv4 / udp dst is {port} / end actions count / queue index {queue} / end"


def config(lab: Lab, rules: str) -> str:
    path = lab.dir / "rules.click"
    path.write_text(CONFIG.replace("RULES", rules).replace("PORT", f"{PORT:04x}"))
    return str(path)


@case(Plain)
def each_packet_meets_the_old_rule_or_the_new_one(lab: Lab) -> None:
    middle, left, right = pair(lab)
    router = Router(lab, middle, config(lab, to_queue(0)))
    check(ping(left, "10.9.0.2"), "a ping through the router")
    number, changes = 0, 0
    control = router.control()
    streams = Streams(lab, {"a": (left, right, "10.9.0.2", 2000)}, 100, flows=16)
    begin, end = streams.mark(), time.monotonic() + 2
    while time.monotonic() < end:
        # The table holds this rule and, for most of the time, a thousand others that come and go.
        changes += 1
        control.write("c.update", f"{number} {to_queue(changes % 2)}")
        if changes % 20 == 1:
            many = "\n".join(to_queue(0, port) for port in range(10_000, 11_000))
            control.write("c.load", f"{many}\n{to_queue(changes % 2)}")
            number = int(control.read("c.rules").splitlines()[-1].split()[0])
    after = streams.mark()
    streams.stop()
    time.sleep(0.2)
    count = streams.between(begin, after)["a"]
    sorted_out = {name: int(router.read(f"{name}.count")) for name in ("first", "second", "missed")}
    check(count.sent > 0 and changes > 2, f"{count}, {changes} changes")
    equal(sorted_out["missed"], 0, "packets that met neither the old nor the new rule")
    check(min(sorted_out["first"], sorted_out["second"]) > 0, f"both rules had packets: {sorted_out}")
    arrived = count.sent - count.lost
    check(sorted_out["first"] + sorted_out["second"] >= arrived, f"{arrived} packets arrived: {sorted_out}")


@case(Plain)
def rules_of_a_file_see_what_scapy_makes(lab: Lab) -> None:
    middle, left, right = pair(lab)
    file = lab.dir / "testpmd.rules"
    file.write_text("# which packets are counted\n"
                    "flow create 0 ingress pattern eth / vlan vid is 7 / ipv4 / end actions mark id 1 / count / queue index 0 / end\n"
                    "flow create 0 pattern eth / ipv4 src spec 10.9.0.0 src prefix 16 / udp dst spec 100 dst last 200 / end "
                    "actions count / queue index 1 / end\n"
                    "flow create 0 priority 1 pattern eth / ipv4 / end actions count / jump group 1 / end\n"
                    "flow create 0 group 1 pattern ipv4 / tcp flags spec 2 flags mask 2 / end actions count / drop / end\n")
    router = Router(lab, middle, config(lab, f"FILE {file}"))
    ether = Ether(src=left.mac("eth0"), dst=right.mac("eth0"))
    inner = IP(src="10.9.0.1", dst="10.9.0.2")
    with Wire(left) as wire:
        from scapy.all import TCP, Dot1Q

        sent = [(0, ether / Dot1Q(vlan=7) / inner / UDP(dport=150)), (1, ether / inner / UDP(dport=100)),
                (1, ether / inner / UDP(dport=200)), (2, ether / inner / UDP(dport=201)), (2, ether / inner / TCP(flags="A")),
                (3, ether / inner / TCP(flags="S")), (3, ether / inner / TCP(flags="SA")),
                (None, ether / Dot1Q(vlan=8) / inner / UDP(dport=150)), (None, Ether(dst="ff:ff:ff:ff:ff:ff") / Raw(b"?" * 60))]
        for _, frame in sent:
            wire.send(frame)
    time.sleep(0.5)
    words = [line.split() for line in router.read("c.counts").splitlines()]
    counts = {int(number): int(packets) for number, packets in words}
    # A packet that the last rule counts has come by the one before it.
    equal(counts, {0: 1, 1: 2, 2: 4, 3: 2}, "packets by rule")
    equal(router.read("c.drops").split("\t"), ["2", "a rule says so\n"], "drops")


@case(Plain)
def rules_in_front_of_a_port_choose_workers_and_drop(lab: Lab) -> None:
    middle, left, right = pair(lab)
    file = lab.dir / "port.rules"
    file.write_text("flow create 0 pattern eth / ipv4 / udp dst is 150 / end actions count / drop / end\n"
                    "flow create 0 pattern eth / ipv4 / udp dst is 151 / end actions count / queue index 1 / end\n"
                    "flow create 0 priority 1 pattern eth / ipv4 / end actions count / queue index 0 / end\n")
    path = lab.dir / "port.click"
    path.write_text(f"in :: FromDevice(eth0, RULES {file}) -> Queue(4000) -> ToDevice(eth1);\n"
                    "FromDevice(eth1) -> Queue(4000) -> ToDevice(eth0);\n")
    router = Router(lab, middle, str(path), "-j", "2")
    check(ping(left, "10.9.0.2"), "a ping through the router")
    ether = Ether(src=left.mac("eth0"), dst=right.mac("eth0"))
    inner = IP(src="10.9.0.1", dst="10.9.0.2")
    with Wire(left) as wire:
        for port in [150] * 5 + [151] * 7:
            wire.send(ether / inner / UDP(dport=port) / Raw(b"?" * 20))
    time.sleep(0.5)
    lines = [line.split("\t") for line in router.read("in.rules").splitlines()]
    equal([line[1] for line in lines[:2]], ["5", "7"], "packets by rule")
    check(int(lines[2][1]) > 0, f"the ping is counted too: {lines}")
    check(all(line[2].startswith("software (") for line in lines), f"why they are in software: {lines}")
    equal(router.read("in.drops"), "5\ta rule says so\n", "drops")
