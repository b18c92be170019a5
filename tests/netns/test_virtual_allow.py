"""`valiant vr`: what the program of a virtual router may name outside the router, in each scheme of isolation."""

import json
import pathlib
import subprocess

from harness import Plain, case, check, equal, wait_for
from lab import Lab, Process, the_binary

GOOD = "FromDevice($DEV0) -> seen :: Counter -> Discard;\n"
# Everything that names something, and what a refusal calls it.
WRONG = (
    ("FromDump({dir}/secret) -> Discard;", "may not read {dir}/secret"),
    ("FromDump({dir}/mine/../secret) -> Discard;", "may not read {dir}/secret"),
    ("FromDump({dir}/mine/link) -> Discard;", "which is a link to {dir}/secret"),
    ("FromDump({dir}/mine/up/secret) -> Discard;", "which is a link to {dir}/secret"),
    ("FromDump(-) -> Discard;", "may not read standard input"),
    ("FromIPSummaryDump({dir}/secret) -> Discard;", "may not read {dir}/secret"),
    ("Idle -> ToDump({dir}/mine/new) -> Discard;", "may not write {dir}/mine/new"),
    ("Idle -> ToIPSummaryDump({dir}/out/../new);", "may not write {dir}/new"),
    ("Idle -> IPPrint(OUTFILE {dir}/new) -> Discard;", "may not write {dir}/new"),
    ("Idle -> rt :: LookupIPRoute(FILE {dir}/secret) -> Discard;", "may not read {dir}/secret"),
    ("IPsecSAD(FILE {dir}/secret);", "may not read {dir}/secret"),
    ("IPsecSAD(DEVICE crypto_null);", "may not use the device crypto_null"),
    ("ControlSocket(tcp, 7778);", "may not listen at tcp:7778"),
    ("ControlSocket(tcp, 7777, LOCALHOST false);", "may not listen at tcp:*:7777"),
    ("ControlSocket(tcp, 7777+);", "any port that is free"),
    ("ControlSocket(tcp, 7777, TOKEN_FILE {dir}/secret);", "may not read {dir}/secret"),
    ("ChatterSocket(unix, {dir}/chat);", "may not listen at unix:{dir}/chat"),
    ("Idle -> KernelTun(10.99.0.1/24, DEVNAME tun9) -> Discard;", "may not use the network interface tun9"),
    ("Idle -> KernelTap(10.99.0.1/24) -> Discard;", "a network interface without a name"),
    ("FromHost(eth0) -> Discard;", "may not use the network interface eth0"),
    ("Idle -> rt :: RadixIPLookup -> Discard; LinuxRoutes(rt, eth0 0);", "the host's own network namespace"),
    ("Idle -> rt :: RadixIPLookup -> Discard; LinuxRoutes(rt, eth0 0, NETNS other);", "may not enter the network namespace other"),
    ("Script(TYPE SIGNAL TERM, stop);", "may not handle signals"),
    ("FromDevice(eth1) -> Discard;", "not an interface of this router"),
    ('FromDevice("net_pcap0,rx_pcap={dir}/secret") -> Discard;', "not an interface of this router"),
    ('require(library "../secret");', "a router's libraries are in the directory of its program"),
    ('require(library "/etc/passwd");', "a router's libraries are in the directory of its program"),
    ('require(library "link");', "a symbolic link leads out"),
)


class Host:
    """A host with one router, `blue`; its program is in a directory of its own."""

    def __init__(self, lab: Lab, scheme: str):
        self.lab, self.scheme, self.dir = lab, scheme, pathlib.Path(lab.dir)
        self.gate, other = lab.namespace("g"), lab.namespace("h")
        lab.veth(self.gate, "eth0", other, "eth0")
        self.dir.chmod(0o755)
        for name in ("mine", "out", "programs"):
            (self.dir / name).mkdir()
        (self.dir / "out").chmod(0o777)
        (self.dir / "secret").write_text("a secret\n")
        (self.dir / "mine" / "routes").write_text("10.7.0.0/16 0\n")
        (self.dir / "mine" / "link").symlink_to(self.dir / "secret")
        (self.dir / "mine" / "up").symlink_to(self.dir)
        (self.dir / "programs" / "link").symlink_to(self.dir / "secret")
        (self.dir / "programs" / "lib.click").write_text("elementclass Lost { input -> lost :: Counter -> Discard }\n")
        self.program, self.file = self.dir / "programs" / "blue.click", self.dir / "edge.toml"
        self.program.write_text(GOOD)
        self.write()
        self.process: Process = self.gate.popen(the_binary(), "vr", "run", self.file, "--no-huge", log="vr.log")
        wait_for("the router", self.runs, 15)

    def write(self, sockets: str = '"tcp:7777"', write: str = '"out"') -> None:
        """The host file."""
        self.file.write_text(
            f'[host]\ncores = [0]\ndirectory = "{self.dir}/run"\n[port.p]\ndevice = "eth0"\n'
            f'[router.blue]\nprogram = "programs/blue.click"\nscheme = "{self.scheme}"\n'
            f'allow = {{ read = ["mine"], write = [{write}], sockets = [{sockets}] }}\n'
            '[[router.blue.interface]]\nport = "p"\nwhole = true\n'
        )

    def vr(self, command: str, *args: str) -> subprocess.CompletedProcess[str]:
        """`valiant vr COMMAND FILE ARGS`."""
        words = self.gate.command(the_binary(), "vr", command, self.file, *args)
        return subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)

    def runs(self) -> bool:
        """Whether the router runs."""
        done = self.vr("status", "--json")
        return done.returncode == 0 and all(router["running"] for router in json.loads(done.stdout)["routers"])

    def call(self, command: str, *words: str) -> subprocess.CompletedProcess[str]:
        """A handler of the router, by its own socket: what its owner can do."""
        line = self.gate.command(the_binary(), command, "--socket", self.dir / "run" / "blue.sock", *words)
        return subprocess.run(line, capture_output=True, text=True, timeout=20, check=False)

    def files(self) -> list[str]:
        """What there is in the directory, without sockets and logs."""
        return sorted(path.name for path in self.dir.iterdir())


def refused(host: Host) -> None:
    """Everything that is not allowed is refused: by the check, by `apply`, and by the router itself."""
    before = host.files()
    for wrong in WRONG:
        line, reason = (text.replace("{dir}", str(host.dir)) for text in wrong)
        host.program.write_text(f"{GOOD}{line}\n")
        for command in ("check", "apply"):
            done = host.vr(command)
            check(done.returncode == 1 and reason in done.stderr, f"{command}: {line}: {done.stdout}{done.stderr}")
        check("blue.click:2" in done.stderr or "require" in line, f"no place: {done.stderr}")
        done = host.call("write", "hotconfig", f"{GOOD}{line}\n")
        check(done.returncode != 0 and reason in done.stderr, f"hotconfig: {line}: {done.stdout}{done.stderr}")
    equal(host.files(), before, "what is in the directory")
    check(host.runs(), "the router runs on")


def scripts(host: Host) -> None:
    """What a script names when it runs."""

    def prints(path: str) -> None:
        script = f'{GOOD}out :: Script(TYPE PASSIVE, print >{host.dir}/{path} "hello");'
        done = host.call("write", "hotconfig", script)
        equal(done.returncode, 0, done.stderr)
        host.call("write", "out.run", "")

    # A link that comes later than the check.
    (host.dir / "out" / "late").symlink_to(host.dir)
    for path in ("new", "mine/new", "out/../new", "mine/up/new", "out/late/new"):
        prints(path)
        check(not (host.dir / "new").exists() and not (host.dir / "mine" / "new").exists(), f"{path} is written")
    prints("out/new")
    equal((host.dir / "out" / "new").read_text(), "hello\n", "an allowed file")
    script = f"""{GOOD}in :: Script(TYPE PASSIVE, return $(cat $1));
    signal :: Script(TYPE PASSIVE, return $(kill 0 1));
    """
    done = host.call("write", "hotconfig", script)
    equal(done.returncode, 0, done.stderr)
    for path in ("secret", "mine/link", "mine/up/secret", "mine/../secret"):
        done = host.call("read", "in.run", f"{host.dir}/{path}")
        check("a secret" not in done.stdout + done.stderr, f"{path} is read: {done.stdout}")
    done = host.call("read", "in.run", f"{host.dir}/mine/routes")
    check("10.7.0.0/16" in done.stdout, f"an allowed file: {done.stdout}{done.stderr}")
    check("may not send signals" in host.call("read", "signal.run").stdout + host.process.log.read_text(), "a signal")


def allowed(host: Host) -> None:
    """What is allowed works, and what `apply` takes away is refused from then on."""
    host.program.write_text(
        f"""require(library "lib.click");
        {GOOD}Idle -> lost :: Lost; Idle -> rt :: LookupIPRoute(FILE {host.dir}/mine/routes) -> Discard;
        Idle -> ToDump({host.dir}/out/capture) -> Discard; ControlSocket(tcp, 7777);
        """
    )
    for command in ("check", "apply"):
        done = host.vr(command)
        equal(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}")
    check("10.7.0.0/16" in host.call("read", "rt.table").stdout, "the routes")
    equal(host.gate.sh(the_binary(), "read", "--socket", "7777", "seen.count").strip(), "0", "by TCP")
    host.write(write="")
    done = host.vr("apply")
    check(done.returncode == 1 and f"may not write {host.dir}/out/capture" in done.stderr, done.stdout + done.stderr)
    host.program.write_text(GOOD)
    equal(host.vr("apply").returncode, 0, "another program")
    done = host.call("write", "hotconfig", f"{GOOD}Idle -> ToDump({host.dir}/out/capture) -> Discard;")
    check(done.returncode != 0 and "may not write" in done.stderr, done.stdout + done.stderr)


def all_of(lab: Lab, scheme: str) -> None:
    """All, with one scheme."""
    host = Host(lab, scheme)
    refused(host)
    scripts(host)
    allowed(host)
    check(host.runs(), "the router runs at the end")
    host.process.terminate()
    equal(host.process.wait(timeout=10), 0, "the exit status")


@case(Plain, seconds=120)
def a_shared_router_names_only_what_it_may(lab: Lab) -> None:
    all_of(lab, "shared")


@case(Plain, seconds=120)
def a_direct_router_names_only_what_it_may(lab: Lab) -> None:
    all_of(lab, "direct")


@case(Plain, seconds=120)
def a_hybrid_router_names_only_what_it_may(lab: Lab) -> None:
    all_of(lab, "hybrid")
