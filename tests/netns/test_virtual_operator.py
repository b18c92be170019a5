"""What the administrator of virtual routers uses: `valiant vr up`, `top`, `console` and `down`; rates and shares that change."""

import json
import pathlib
import signal
import subprocess
from typing import Any

from harness import Plain, case, check, equal, wait_for
from lab import Lab, the_binary
from packets import write_pcap

SLOW = "FromDevice($DEV0) -> WorkPackage(CYCLES 20000) -> c :: Counter -> Queue(1000) -> ToDevice($DEV1);"
QUICK = "FromDevice($DEV0) -> c :: Counter -> Queue(1000) -> ToDevice($DEV1);"


class Edge:
    """A host in the background, with the routers `slow`, which uses its share, and `quick`; more packets come than both can take."""

    def __init__(self, lab: Lab):
        self.lab, self.gate, self.file = lab, lab.namespace("g"), lab.dir / "edge.toml"
        frames = [bytes.fromhex(f"020000000001 020000000063 8100 {vlan:04x} 0800") + bytes(42) for vlan in (10, 20)]
        write_pcap(lab.dir / "in.pcap", frames * 64)
        for name, program in (("slow", SLOW), ("quick", QUICK)):
            (lab.dir / f"{name}.click").write_text(program)
        self.describe()

    def describe(self, sharing: str = "software-queued", rate: str = "", share: int = 1) -> None:
        """The host file."""
        text = f'[host]\ncores = [0]\ndirectory = "{self.lab.dir}/run"\n[port.out]\ndevice = "net_null1,no-rx=1"\n'
        text += f'[port.in]\ndevice = "net_pcap0,rx_pcap={self.lab.dir}/in.pcap,infinite_rx=1"\nsharing = "{sharing}"\n'
        for name, vlan in (("slow", 10), ("quick", 20)):
            text += f'[router.{name}]\nprogram = "{name}.click"\nshare = {share if name == "slow" else 1}\n'
            for port in ("in", "out"):
                text += f'[[router.{name}.interface]]\nport = "{port}"\nvlan = {vlan}\n'
                text += f'rate = "{rate}"\n' if rate and (name, port) == ("quick", "out") else ""
        self.file.write_text(text)

    def run(self, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        """`valiant vr COMMAND FILE ...`, however it ends."""
        command = self.gate.command(the_binary(), "vr", words[0], self.file, *words[1:])
        return subprocess.run(command, input=typed, capture_output=True, text=True, timeout=60, check=False)

    def good(self, *words: str, typed: str = "") -> str:
        """What a command prints that must not fail."""
        done = self.run(*words, typed=typed)
        equal((done.returncode, done.stderr), (0, ""), f"vr {words[0]}")
        return done.stdout

    def routers(self) -> dict[str, Any]:
        """What `top` says of each router over half a second."""
        shown = json.loads(self.good("top", "--json", "--count", "1", "--interval", "500ms"))
        return {router["name"]: router for router in shown["routers"]}

    def end(self) -> None:
        """Ends the host, and waits until it has gone."""
        self.good("down")
        wait_for("the end of the host", lambda: not (self.lab.dir / "run" / "host.control").exists(), 10)


@case(Plain, seconds=60)
def a_host_runs_in_the_background_and_top_says_why_a_router_gets_no_more(lab: Lab) -> None:
    edge = Edge(lab)
    check("no host runs" in edge.run("top").stderr, "top without a host")
    said = edge.good("up", "--no-huge")
    check(said.startswith("edge: started, process ") and f"{lab.dir}/run/host.log" in said, said)
    try:
        check("2 of 2 virtual routers run" in (lab.dir / "run" / "host.log").read_text(), "what the log says")
        equal(edge.good("up"), "edge: already running\n", "a second start")
        routers = edge.routers()
        check(routers["slow"]["time"] < 0.9 and routers["slow"]["lost_pps"] > 0, str(routers))
        why = routers["slow"]["why"]
        check("uses its share" in why or "the processors are busy" in why, why)
        text = edge.good("top", "--count", "2", "--interval", "200ms")
        equal(text.count("why not more"), 2, text)

        # Shares and rates change while the routers run; how ports are shared does not.
        edge.describe(rate="8M", share=2)
        equal(edge.good("apply"), "slow: share or limits changed\nquick: share or limits changed\n", "what apply says")
        quick = edge.routers()["quick"]
        # 60 bytes with the tag: 16,667 frames in a second.
        check(10_000 < quick["sent_pps"] < 20_000 and quick["not_sent_pps"] > 0, str(quick))
        equal(edge.routers()["slow"]["share"], 2, "the share")
        edge.describe(sharing="software")
        check("how they are shared" in edge.run("apply").stderr, "another way to share")

        lines = "list\nc.count\nwrite c.reset\nno.count\ndrops\n"
        done = edge.run("console", "quick", typed=lines)
        equal((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        check("no.count: No element named 'no'" in done.stderr, done.stderr)
        words = done.stdout.splitlines()
        check("c" in words and any(word.isdigit() for word in words) and words[-1] == "no packet has been dropped", done.stdout)
        check("'blue' runs there; quick, slow do" in edge.run("console", "blue").stderr, "a router that there is not")

        watching = edge.gate.popen(the_binary(), "vr", "top", edge.file, "--interval", "100ms", stdout=subprocess.PIPE, text=True)
        line = watching.stdout.readline() if watching.stdout else ""
        check(line.startswith("edge: 2 routers"), line)
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=10)
        equal(watching.returncode, 0, "top ends with Ctrl-C")
    finally:
        edge.end()


@case(Plain, seconds=60)
def a_host_that_cannot_start_says_so_at_once(lab: Lab) -> None:
    edge = Edge(lab)
    good = pathlib.Path(edge.file).read_text()
    edge.file.write_text(good.replace("quick.click", "quack.click"))
    done = edge.run("up", "--no-huge")
    check(done.returncode == 1 and "edge.toml:" in done.stderr and "quack.click" in done.stderr, done.stderr)
    check(not (lab.dir / "run").exists(), "nothing is made")
    # What is seen only when the ports open is in the log.
    edge.file.write_text(good.replace("in.pcap", "none.pcap"))
    done = edge.run("up", "--no-huge")
    check(done.returncode == 1 and "it exited" in done.stderr and "none.pcap" in done.stderr, done.stderr)
    check(f"end of {lab.dir}/run/host.log" in done.stderr, done.stderr)
