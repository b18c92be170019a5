"""Translation of addresses and load balancing, with real hosts on both sides."""

import contextlib
import ftplib
import io
import re
import socket
import subprocess
import time

from harness import ICMP, IP, TCP, UDP, Ether, IPerror, Plain, Raw, Router, TCPerror, Wire, case, check, equal, ping
from lab import ROOT, Lab, Namespace, the_binary, wait_for

INSIDE, OUTSIDE = "10.0.1.2", "192.0.2.9"
SERVERS = ("10.0.2.11", "10.0.2.12", "10.0.2.13")
# Answers every connection with its own address, line by line.
ECHO = """
import socketserver, sys
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(sys.argv[1].encode() + b" " + self.client_address[0].encode() + b" " + line)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
Server(("", int(sys.argv[2])), Handler).serve_forever()
"""
# An FTP server in active mode, as RFC 959 wants it: it connects from the port below its control port. What is stored is what
# can be retrieved.
FTP = """
import socket, socketserver
stored = {}
class Handler(socketserver.StreamRequestHandler):
    def say(self, text):
        self.wfile.write(text.encode() + b"\\r\\n")
    def data(self):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.settimeout(5)
        s.bind(("", 20))
        s.connect(self.place)
        return s
    def handle(self):
        self.say("220 ready")
        for line in self.rfile:
            verb, _, argument = line.decode().strip().partition(" ")
            if verb == "PORT":
                *host, high, low = argument.split(",")
                self.place = (".".join(host), int(high) * 256 + int(low))
                self.say("200 " + self.place[0])
            elif verb == "STOR":
                self.say("150 go")
                with self.data() as s:
                    stored[argument] = b"".join(iter(lambda: s.recv(65536), b""))
                self.say("226 stored")
            elif verb == "RETR":
                self.say("150 here")
                with self.data() as s:
                    s.sendall(stored[argument])
                self.say("226 sent")
            elif verb == "QUIT":
                self.say("221 bye")
                return
            else:
                self.say("230 " + verb)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
Server(("", 21), Handler).serve_forever()
"""


def gateway(lab: Lab, *args: object) -> tuple[Router, Namespace, Namespace]:
    """The gateway of conf/ between a host inside and one outside."""
    middle, inside, outside = lab.namespace("r"), lab.namespace("h1"), lab.namespace("h2")
    for i, (host, address) in enumerate(((inside, INSIDE), (outside, OUTSIDE))):
        lab.veth(middle, f"eth{i}", host, "eth0")
        host.ip("addr", "add", f"{address}/24", "dev", "eth0")
    inside.ip("route", "add", "default", "via", "10.0.1.1")
    return Router(lab, middle, ROOT / "conf" / "nat-gateway.click", f"GATEWAY={OUTSIDE}", *args), inside, outside


def echo(space: Namespace, name: str, port: int) -> None:
    """Starts a server that answers with its name."""
    space.popen("/usr/bin/python3", "-c", ECHO, name, port, log=f"{space.short}-{port}.log")
    wait_for(f"a server in {space.short}", lambda: f":{port} " in space.sh("ss", "-Hltn"), 5)


class Connection:
    """A TCP connection from a namespace, on which lines go to and fro."""

    def __init__(self, space: Namespace, address: str, port: int, source: int | None = None):
        with space.inside():
            self.socket = socket.socket()
            self.socket.settimeout(5)
            if source is not None:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                self.socket.bind(("", source))
            self.socket.connect((address, port))
        self.file = self.socket.makefile("rwb")

    def ask(self, word: str) -> list[str]:
        self.file.write(f"{word}\n".encode())
        self.file.flush()
        return self.file.readline().decode().split()

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@case(Plain, seconds=60)
def hosts_inside_share_an_address(lab: Lab) -> None:
    router, inside, outside = gateway(lab)
    wait_for("a ping through the gateway", lambda: ping(inside, OUTSIDE), 5)
    check(ping(inside, "10.0.1.1") and ping(outside, "192.0.2.1"), "the gateway answers pings")
    check(not ping(outside, INSIDE), "the inside cannot be reached from the outside")
    echo(outside, "outside", 7000)
    echo(inside, "inside", 80)
    with contextlib.closing(Connection(inside, OUTSIDE, 7000)) as there:
        equal(there.ask("hello"), ["outside", "192.0.2.1", "hello"], "what the outside sees")
        check("192.0.2.9, 7000" in router.read("nat.tcp_table"), router.read("nat.tcp_table"))
    with contextlib.closing(Connection(outside, "192.0.2.1", 8080)) as back:
        equal(back.ask("hello"), ["inside", OUTSIDE, "hello"], "the port of the server inside")
    # UDP, as large as it gets without fragments, both ways.
    listener = outside.popen("iperf3", "-s", "-1", "-p", "5302")
    wait_for("iperf3 -s", lambda: ":5302" in outside.sh("ss", "-Hltn"), 3)
    inside.sh("iperf3", "-c", OUTSIDE, "-p", "5302", "-u", "-b", "20M", "-l", "1472", "-t", "1", "--bidir")
    lab.stop(listener)
    # Nobody from the outside gets in without a flow.
    with Wire(outside) as wire, Wire(inside) as seen:
        ether = Ether(dst="02:00:00:00:01:02", src=wire.mac)
        for port in (1024, 5000, 65535):
            wire.send(ether / IP(src=OUTSIDE, dst="192.0.2.1") / UDP(sport=9, dport=port) / Raw(b"in"))
        check(not any(UDP in frame and frame[UDP].sport == 9 for frame in seen.frames(0.5)), "a packet of no flow got in")
    check("\tno mapping" in router.read("drops"), router.read("drops"))


@case(Plain, seconds=60)
def errors_find_the_host_that_sent_the_packet(lab: Lab) -> None:
    router, inside, outside = gateway(lab)
    # The host outside is a router to another one.
    beyond = lab.namespace("h3")
    lab.veth(outside, "eth1", beyond, "eth0")
    outside.ip("addr", "add", "203.0.113.1/24", "dev", "eth1")
    outside.sh("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.icmp_ratelimit=0")
    beyond.ip("addr", "add", "203.0.113.9/24", "dev", "eth0")
    beyond.ip("route", "add", "default", "via", "203.0.113.1")
    beyond.sh("sysctl", "-qw", "net.ipv4.icmp_ratelimit=0")
    wait_for("a ping through the gateway and the router", lambda: ping(inside, "203.0.113.9"), 5)
    # By UDP, by pings, and by TCP, each hop answers.
    for how in ((), ("-I",), ("-T", "-p", "9")):
        text = inside.sh("traceroute", "-n", "-q", "2", "-w", "2", *how, "203.0.113.9")
        hops = re.findall(r"^ *\d+  ([\d.]+|\*)", text, re.MULTILINE)
        equal(hops, ["10.0.1.1", "192.0.2.9", "203.0.113.9"], f"traceroute {' '.join(how)}: {text}")
    # A socket is told that its port is closed there.
    with inside.inside():
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with udp:
        udp.settimeout(5)
        udp.connect(("203.0.113.9", 9))
        udp.send(b"anybody")
        try:
            udp.recv(100)
            check(False, "an answer from nobody")
        except ConnectionRefusedError:
            pass
    # An error from the inside shows the outside no inside address.
    echo(inside, "inside", 80)
    with contextlib.closing(Connection(outside, "192.0.2.1", 8080)) as back, Wire(outside) as wire, Wire(inside) as seen:
        equal(back.ask("hello"), ["inside", OUTSIDE, "hello"], "the port of the server inside")
        seen.drain()
        back.ask("again")
        about = seen.expect("a packet to the server", lambda f: TCP in f and f[TCP].dport == 80)
        ether = Ether(dst="02:00:00:00:01:01", src=seen.mac)
        seen.send(ether / IP(src=INSIDE, dst=OUTSIDE) / ICMP(type=3, code=13) / about[IP])
        told = wire.expect("the error", lambda f: ICMP in f and f[ICMP].type == 3)
        equal((told[IP].src, told[IPerror].dst, told[TCPerror].dport), ("192.0.2.1", "192.0.2.1", 8080), "what the outside sees")
    check("about no translated flow" not in router.read("drops"), router.read("drops"))


@case(Plain, seconds=60)
def files_go_by_ftp_in_active_mode(lab: Lab) -> None:
    router, inside, outside = gateway(lab)
    wait_for("a ping through the gateway", lambda: ping(inside, OUTSIDE), 5)
    outside.popen("/usr/bin/python3", "-c", FTP, log="ftp.log")
    wait_for("the FTP server", lambda: ":21 " in outside.sh("ss", "-Hltn"), 5)
    with inside.inside():
        ftp = ftplib.FTP()
        ftp.set_pasv(False)
        ftp.connect(OUTSIDE, 21, timeout=10)
        ftp.login()
        # Each command shifts the sequence numbers of the connection further.
        for number in range(20):
            content = bytes([number]) * 100_000 + b"end"
            ftp.storbinary(f"STOR {number}", io.BytesIO(content))
            got = io.BytesIO()
            ftp.retrbinary(f"RETR {number}", got.write)
            equal(got.getvalue(), content, f"file {number}")
        table = router.read("nat.tcp_table")
        shifted = [line for line in table.splitlines() if "198.51.100" not in line and " seq +" in line]
        check(shifted and "(192.0.2.9, 20, 192.0.2.1, " in table, table)
        ftp.quit()


@case(Plain, seconds=60)
def connections_survive_hot_swaps_and_another_configuration(lab: Lab) -> None:
    router, inside, outside = gateway(lab, "-R", "-j", "2")
    wait_for("a ping through the gateway", lambda: ping(inside, OUTSIDE), 5)
    echo(outside, "outside", 7000)
    connections = [Connection(inside, OUTSIDE, 7000) for _ in range(50)]
    listener = outside.popen("iperf3", "-s", "-1", "-p", "5302")
    wait_for("iperf3 -s", lambda: ":5302" in outside.sh("ss", "-Hltn"), 3)
    load = inside.popen("iperf3", "-c", OUTSIDE, "-p", "5302", "-t", "4", "-P", "4")
    text = router.read("config").replace("$GATEWAY 192.0.2.254", f"$GATEWAY {OUTSIDE}")
    for capacity in (4_000_000, 300_000, 4_000_000, 200_000):
        time.sleep(0.5)
        done = subprocess.run([the_binary(), "write", "--socket", router.socket, "hotconfig", "-"], text=True,
                              input=text.replace("$CAPACITY 4000000", f"$CAPACITY {capacity}"),
                              capture_output=True, timeout=20, check=False)
        equal(done.returncode, 0, done.stderr)
        for number, connection in enumerate(connections):
            equal(connection.ask(str(number)), ["outside", "192.0.2.1", str(number)], f"connection {number} after a hot swap")
    load.wait(15)
    lab.stop(listener)
    equal(load.returncode, 0, "TCP broke off")
    check(int(router.read("nat.size")) >= 50, router.read("nat.size"))
    equal(router.read("nat.capacity").strip(), "200000", "the capacity of the last configuration")


@case(Plain, seconds=60)
def servers_share_an_address_and_leave_without_harm(lab: Lab) -> None:
    middle, clients, servers = lab.namespace("r"), lab.namespace("h1"), lab.namespace("h2")
    for i, (host, address) in enumerate(((clients, "10.0.1.2"), (servers, "10.0.2.2"))):
        lab.veth(middle, f"eth{i}", host, "eth0")
        host.ip("addr", "add", f"{address}/24", "dev", "eth0")
    servers.ip("route", "add", "default", "via", "10.0.2.1")
    # Servers are addresses of one host, which says whom it answers as.
    for address in SERVERS:
        servers.ip("addr", "add", f"{address}/32", "dev", "eth0")
    router = Router(lab, middle, ROOT / "conf" / "load-balancer.click", "INTERVAL=100ms")
    wait_for("a ping to the balancer", lambda: ping(clients, "10.0.1.100"), 5)
    script = ECHO.replace("sys.argv[1].encode()", "self.connection.getsockname()[0].encode()")
    servers.popen("/usr/bin/python3", "-c", script, "-", 80, log="servers.log")
    wait_for("the servers", lambda: ":80 " in servers.sh("ss", "-Hltn"), 5)
    connections = [Connection(clients, "10.0.1.100", 80) for _ in range(60)]
    by = [connection.ask("a")[0] for connection in connections]
    equal(set(by), set(SERVERS), "all servers have connections")
    control = router.control()
    control.write("pool.down", SERVERS[1])
    for server, connection in zip(by, connections, strict=True):
        equal(connection.ask("b"), [server, "10.0.1.2", "b"], "a connection after a server was taken out")
    more = [Connection(clients, "10.0.1.100", 80) for _ in range(40)]
    equal({connection.ask("c")[0] for connection in more}, {SERVERS[0], SERVERS[2]}, "servers of new connections")
    # A server that does not answer any more gets no new connections either.
    servers.ip("addr", "del", f"{SERVERS[2]}/32", "dev", "eth0")
    wait_for("the silence to be noticed", lambda: f"{SERVERS[2]} - 1 silent" in router.read("pool.servers"), 5)
    again = [Connection(clients, "10.0.1.100", 80) for _ in range(20)]
    equal({connection.ask("e")[0] for connection in again}, {SERVERS[0]}, "servers of new connections")
    servers.ip("addr", "add", f"{SERVERS[2]}/32", "dev", "eth0")
    wait_for("the server to be back", lambda: f"{SERVERS[2]} - 1 up" in router.read("pool.servers"), 5)
    control.write("pool.remove", SERVERS[1])
    for server, connection in zip(by, connections, strict=True):
        equal(connection.ask("d")[0], server, "a connection after a server was removed")
    counted = {line.split()[0]: int(line.split()[4]) for line in router.read("pool.servers").splitlines()}
    check(set(counted) == {SERVERS[0], SERVERS[2]} and sum(counted.values()) >= 40, str(counted))
