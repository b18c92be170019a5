"""conf/ipsec.click: two gateways with a tunnel between them, and scapy's IPsec as the peer of one."""

from typing import Any

from scapy.layers.ipsec import ESP, SecurityAssociation

from harness import ARP, ICMP, IP, ROOT, UDP, Ether, Plain, Raw, Router, Wire, case, check, equal, ping, wait_for
from lab import Lab, Namespace

CONF = ROOT / "conf" / "ipsec.click"
# Each gateway's file: how it sends, how it receives.
ALGORITHMS = {
    "gcm": "aes-gcm 000102030405060708090a0b0c0d0e0f10111213",
    "cbc": "aes-cbc-hmac-sha1 000102030405060708090a0b0c0d0e0f 000102030405060708090a0b0c0d0e0f10111213",
}


# The same for scapy.
KEYS = {
    "gcm": {"crypt_algo": "AES-GCM", "crypt_key": bytes(range(20))},
    "cbc": {"crypt_algo": "AES-CBC", "crypt_key": bytes(range(16)), "auth_algo": "HMAC-SHA1-96", "auth_key": bytes(range(20))},
}


def gateway(lab: Lab, space: Namespace, number: int, algorithm: str, more: str = "", far_net: str | None = None) -> Router:
    """Gateway 1 or 2 of `conf/ipsec.click` in a namespace with eth0 inside and eth1 outside. `more` are other peers' lines."""
    near, far = number, 3 - number
    text = ALGORITHMS[algorithm]
    sad = lab.dir / f"sad{number}"
    sad.write_text(f"out 0x100{near} 192.0.2.{near} 192.0.2.{far} {text} # to there\n"
                   f"in 0x100{far} 192.0.2.{far} 192.0.2.{near} {text} window 256 "
                   f"from 10.{far}.0.0/24 to 10.{near}.0.0/24\n{more}")
    sad.chmod(0o600)
    return Router(lab, space, CONF, f"INSIDE_IP=10.{near}.0.1", f"INSIDE_NET=10.{near}.0.0/24",
                  f"FAR_NET={far_net or f'10.{far}.0.0/24'}", f"OUTSIDE_IP=192.0.2.{near}", f"SPI=0x100{near}", f"SAD=FILE {sad}",
                  f"INSIDE_MAC={space.mac('eth0')}", f"OUTSIDE_MAC={space.mac('eth1')}", log=f"gateway{number}.log")


def site(lab: Lab, gate: Namespace, number: int) -> Namespace:
    """A host behind a gateway."""
    host = lab.namespace(f"h{number}")
    lab.veth(gate, "eth0", host, "eth0")
    host.ip("addr", "add", f"10.{number}.0.2/24", "dev", "eth0")
    host.ip("route", "add", "default", "via", f"10.{number}.0.1")
    return host


@case(Plain, "gcm", "cbc")
def two_gateways_join_two_sites(lab: Lab, algorithm: str = "gcm") -> None:
    one, two, middle = (lab.namespace(name) for name in ("g1", "g2", "m"))
    left, right = site(lab, one, 1), site(lab, two, 2)
    # A bridge between them, where one can listen.
    for i, gate in enumerate((one, two)):
        lab.veth(gate, "eth1", middle, f"port{i}")
    middle.ip("link", "add", "br0", "type", "bridge")
    for i in range(2):
        middle.ip("link", "set", f"port{i}", "master", "br0")
    middle.ip("link", "set", "br0", "up")
    with Wire(middle, "port0") as wire:
        routers = [gateway(lab, one, 1, algorithm), gateway(lab, two, 2, algorithm)]
        wait_for("a ping through the tunnel", lambda: ping(left, "10.2.0.2"), 5)
        out = left.sh("ping", "-c", "20", "-i", "0.05", "-s", "1300", "10.2.0.2")
        check(" 0% packet loss" in out, out)
        out = left.sh("ping", "-c", "1", "-W", "1", "-M", "do", "-s", "1450", "10.2.0.2", check=False)
        check("mtu" in out.lower(), out)
        # For the last reply ping waits two round-trip times, or the interval.
        check(" 0% packet loss" in right.sh("ping", "-c", "2", "-i", "0.2", "-s", "3000", "10.1.0.2"), "fragments")
        frames = list(wire.frames(0.2))
    kinds = {"ESP" if IP in f and f[IP].proto == 50 else "ARP" if ARP in f else f.summary() for f in frames}
    equal(kinds, {"ESP", "ARP"}, "what goes between the gateways")
    for router in routers:
        check(int(router.read("encrypt.count")) > 20 and int(router.read("decrypt.count")) > 20, router.read("sad.table"))
        # No handler shows a key, and no log.
        shown = "".join(router.read(h) for h in ("sad.table", "sad.config", "config", "flatconfig", "sad.devices"))
        check("0c0d0e0f" not in (shown + router.output()).lower(), "a key is shown")


@case(Plain, "gcm", "cbc")
def scapy_is_the_peer(lab: Lab, algorithm: str = "gcm") -> None:
    gate, peer = lab.namespace("g1"), lab.namespace("p")
    host = site(lab, gate, 1)
    lab.veth(gate, "eth1", peer, "eth0")
    keys = KEYS[algorithm]

    def association(spi: int, src: str, dst: str) -> Any:
        return SecurityAssociation(ESP, spi=spi, tunnel_header=IP(src=src, dst=dst), **keys)

    to_gate, from_gate = association(0x1002, "192.0.2.2", "192.0.2.1"), association(0x1001, "192.0.2.1", "192.0.2.2")
    router = gateway(lab, gate, 1, algorithm)
    with Wire(peer) as wire, Wire(host) as inside:
        wire.answers["192.0.2.2"] = wire.mac
        ether = Ether(src=wire.mac, dst=gate.mac("eth1"))
        request = IP(src="10.2.0.2", dst="10.1.0.2", ttl=9) / ICMP(id=7, seq=1) / Raw(b"through the tunnel")
        sealed = to_gate.encrypt(request, seq_num=1)
        wire.send(ether / sealed)
        frame = inside.expect("the request", lambda f: ICMP in f and f[ICMP].type == 8)
        equal((frame[IP].src, frame[IP].ttl, bytes(frame[Raw])), ("10.2.0.2", 8, b"through the tunnel"), "the request")
        # The host's kernel answers, and the gateway encrypts the answer.
        frame = wire.expect("the answer", lambda f: IP in f and f[IP].proto == 50)
        equal(frame[ESP].spi, 0x1001, "SPI")
        answer = from_gate.decrypt(IP(bytes(frame[IP])))
        equal((answer.dst, answer[ICMP].type, bytes(answer[Raw])), ("10.2.0.2", 0, b"through the tunnel"), "the answer")
        # Replayed, forged, of an unknown association, in clear, and from a network that is not the peer's.
        forged = bytearray(bytes(to_gate.encrypt(request, seq_num=2)))
        forged[-1] ^= 1
        stranger = IP(src="10.3.0.2", dst="10.1.0.2") / ICMP() / Raw(b"stranger")
        for packet in (bytes(sealed), bytes(forged), bytes(association(0x1999, "192.0.2.2", "192.0.2.1").encrypt(request)),
                       bytes(request), bytes(to_gate.encrypt(stranger, seq_num=3))):
            wire.send(bytes(ether) + packet if ether.type == 0x800 else bytes(Ether(src=ether.src, dst=ether.dst, type=0x800))
                      + packet)
        check(not [f for f in inside.frames(0.5) if ICMP in f], "something came through")
        drops = router.read("decrypt.drops")
        for reason in ("replayed", "authentication failed", "unknown SPI", "outside the selectors"):
            check(f"1\t{reason}" in drops, f"{reason}:\n{drops}")
        equal(router.read("decrypt.count"), "1", "decrypted")


@case(Plain, "gcm", "cbc")
def a_peer_cannot_send_in_anothers_name(lab: Lab, algorithm: str = "gcm") -> None:
    # Sites 2, 3 and 4 all lie in FAR_NET. Peer 3 has a key, and writes any inner address that it likes.
    gate, peer = lab.namespace("g1"), lab.namespace("p")
    host = site(lab, gate, 1)
    lab.veth(gate, "eth1", peer, "eth0")
    text = ALGORITHMS[algorithm]
    more = "".join(f"in 0x100{n} 192.0.2.{n} 192.0.2.1 {text} from 10.{n}.0.0/24,2001:db8:{n}::/48 to 10.1.0.0/24\n" for n in (3, 4))
    router = gateway(lab, gate, 1, algorithm, more, far_net="10.0.0.0/13")
    check("can be read by others" not in router.output(), router.output())
    keys = KEYS[algorithm]
    sas = {n: SecurityAssociation(ESP, spi=0x1000 + n, tunnel_header=IP(src=f"192.0.2.{n}", dst="192.0.2.1"), **keys)
           for n in (2, 3, 4)}
    numbers = dict.fromkeys(sas, 0)
    with Wire(peer) as wire, Wire(host) as inside:
        ether = Ether(src=wire.mac, dst=gate.mac("eth1"))

        def send(n: int, inner: Any) -> None:
            numbers[n] += 1
            wire.send(ether / sas[n].encrypt(inner, seq_num=numbers[n]))

        def packet(src: str, id: int, dst: str = "10.1.0.2", **fields: Any) -> Any:
            return IP(src=src, dst=dst, id=id, **fields) / UDP(sport=1, dport=9) / Raw(b"x" * 40)

        for n in sas:
            send(n, packet(f"10.{n}.0.2", 100 + n))
        sources = ("10.2.0.2", "10.4.0.2", "10.1.0.2", "10.3.1.2", "10.2.255.255", "0.0.0.0", "127.0.0.1", "192.0.2.1")
        spoofed = [(3, src) for src in sources]
        spoofed += [(2, "10.3.0.2"), (4, "10.2.0.2")]
        for n, src in spoofed:
            send(n, packet(src, 7000))
            send(n, packet(src, 7000, flags="MF"))
            send(n, packet(src, 7000, frag=3))
        for n in sas:
            send(n, packet(f"10.{n}.0.2", 7000, dst="10.1.1.2"))
        send(3, packet("10.3.0.255", 7777))
        got = []
        for f in inside.frames(3):
            if IP in f and f[IP].proto == 17:
                got.append((f[IP].src, f[IP].id))
                if f[IP].id == 7777:
                    break
        equal(got, [("10.2.0.2", 102), ("10.3.0.2", 103), ("10.4.0.2", 104), ("10.3.0.255", 7777)], "what came out of the tunnels")
        drops = router.read("decrypt.drops")
        check(f"{3 * len(spoofed) + 3}\toutside the selectors" in drops, drops)
        table = router.read("sad.table")
        check(", from 10.3.0.0/24,2001:db8:3::/48, to 10.1.0.0/24" in table, table)


@case(Plain)
def a_key_file_that_others_can_read_is_warned_of(lab: Lab) -> None:
    gate = lab.namespace("g1")
    site(lab, gate, 1)
    lab.veth(gate, "eth1", lab.namespace("p"), "eth0")
    # An umask of the user may be stricter than the usual one.
    sad = lab.dir / "open"
    sad.write_text("# no associations yet\n")
    sad.chmod(0o644)
    router = Router(lab, gate, CONF, f"SAD=FILE {sad}", f"INSIDE_MAC={gate.mac('eth0')}", f"OUTSIDE_MAC={gate.mac('eth1')}")
    check(f"{sad} can be read by others than its owner: chmod 600 {sad}" in router.output(), router.output())
