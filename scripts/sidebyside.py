"""Forwarders side by side: how each is run and counted, the rounds, the data files, the tables.

All of them forward with one core, pinned, between the same virtual devices, one after the other in every round, so that
what else the machine does hits all alike. A figure is the median of the rounds' ratios to the device's first case, with the
smallest and the largest.
"""

import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "load"))

from benchlib import machine, valiant_binary  # noqa: E402
from control import Client  # noqa: E402

NULL_IN = "net_null0,size=60"
NULL_OUT = "net_null1,size=60,no-rx=1"
MEMORY_MB = 1024
PEER = "testpmd"
PEER_COMMAND = "dpdk-testpmd --forward-mode=io --burst=32"


class Failed(Exception):
    """A forwarder gave no figures; the text is what it said."""


class Machine:
    """Where forwarders run: on core `cpu`, for `seconds`, with `directory` for their files."""

    def __init__(self, cpu, seconds, directory):
        self.cpu, self.seconds, self.directory = cpu, seconds, directory
        self.other = next((c for c in sorted(os.sched_getaffinity(0)) if c != cpu), cpu)

    def environment(self, memory=MEMORY_MB):
        """DPDK's arguments: the main lcore elsewhere, the forwarding one on the core; no hugepages, no PCI."""
        return ["--no-huge", "-m", str(memory), "--no-pci", "--no-telemetry", "--lcores", f"0@{self.other},1@{self.cpu}",
                "--file-prefix", f"bench-{os.getpid()}"]

    def testpmd(self, source):
        """Packets a second of io forwarding."""
        command = ["dpdk-testpmd", *self.environment(), f"--vdev={source}", f"--vdev={NULL_OUT}", "--", "--forward-mode=io",
                   "--burst=32", "--total-num-mbufs=131072", "--stats-period=1"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, errors="replace")
        rates, seen = [], ""
        try:
            # The first period has the start in it. Port 0 receives; port 1 has nothing to receive.
            deadline = time.monotonic() + 20 + self.seconds
            while len(rates) < self.seconds + 1 and time.monotonic() < deadline:
                line = process.stdout.readline()
                if not line:
                    break
                seen += line
                match = re.search(r"Rx-pps:\s*(\d+)", line)
                if match and int(match[1]) > 0:
                    rates.append(int(match[1]))
        finally:
            end(process)
        if len(rates) < 2:
            raise Failed(f"dpdk-testpmd gave no figures:\n{seen}")
        return statistics.median(rates[1:]), {}

    def valiant(self, config, variables, vector):
        """Packets a second that come out of `conf/CONFIG`, and cycles a packet by element."""
        socket = f"{self.directory}/control"
        command = [valiant_binary(), "run", "-w", "--memory", str(MEMORY_MB), "--cpus", str(self.cpu), "--burst", str(vector),
                   "-u", socket, str(HERE.parent / "conf" / config), *variables]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True)
        error = ""
        try:
            client = Client(socket)
            time.sleep(0.3)
            rates = []
            for _ in range(self.seconds):
                before, began = client.number("out.count"), time.monotonic()
                time.sleep(1)
                rates.append((client.number("out.count") - before) / (time.monotonic() - began))
            drops = client.read("drops")
            cycles = client.read("cycles").splitlines()
        except OSError as problem:
            error = f"valiant does not answer: {problem}\n"
        finally:
            error += end(process) or ""
        if process.returncode not in (0, -15):
            raise Failed(f"{config}: valiant ended with {process.returncode}\n{error}")
        if drops:
            raise Failed(f"{config} drops packets:\n{drops}")
        return statistics.median(rates), {"cycles_of_last_round": cycles}


def end(process):
    """Ends a process; returns what it still had to say on its error stream."""
    process.terminate()
    try:
        return process.communicate(timeout=20)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[1]


def run_rounds(cases, count):
    """Runs `cases`, {(device, name): function that returns packets a second and notes}, one after the other, `count` times.

    Returns the load average of each round, {case: [packets a second]} and {case: notes of its last run}."""
    loads, rates, notes = [], {key: [] for key in cases}, {}
    for number in range(count):
        loads.append(round(os.getloadavg()[0], 2))
        for key, run in cases.items():
            pps, notes[key] = run()
            rates[key].append(round(pps))
        print(f"round {number + 1}, load average {loads[-1]}: " + ", ".join(
            f"{device} {name} {rates[device, name][-1] / 1e6:.1f} Mpps" for device, name in cases if name == PEER), flush=True)
    return loads, rates, notes


def ratios(rates, peers):
    """Median, least and most of the rounds' ratios."""
    each = [rate / peer for rate, peer in zip(rates, peers)]
    return {"ratio_median": round(statistics.median(each), 3), "ratio_min": round(min(each), 3),
            "ratio_max": round(max(each), 3)}


def nanoseconds(more, less):
    """What a packet of the slower case costs more, round by round."""
    each = [1e9 / m - 1e9 / l for m, l in zip(more, less)]
    return {"ns_median": round(statistics.median(each), 2), "ns_min": round(min(each), 2), "ns_max": round(max(each), 2)}


def results(device, loads, rates, notes, facts):
    """What is kept of a device: the facts, every single rate, and what follows from them."""
    peers = rates[device, PEER]
    data = {**facts, "load_averages": loads, "peer": PEER_COMMAND, "peer_pps": peers, "cases": {}}
    for (where, name), each in rates.items():
        if where == device and name != PEER:
            data["cases"][name] = {"pps": each, **ratios(each, peers), **notes[where, name]}
    differences = {}
    for name in data["cases"]:
        kind, _, vector = name.partition("-")
        stamp, least = data["cases"].get(f"stamp-{vector}"), data["cases"].get(f"min-{vector}")
        if kind != "ip" or not stamp:
            continue
        ip = data["cases"][name]
        differences[f"routing-{vector}"] = {"of": f"{name} less stamp-{vector}", **nanoseconds(ip["pps"], stamp["pps"])}
        if least:
            # What routing would reach without the stamping: an estimate, as costs need not simply add up.
            alone = [1 / (1 / i - 1 / s + 1 / m) for i, s, m in zip(ip["pps"], stamp["pps"], least["pps"])]
            differences[f"ip-without-stamp-{vector}"] = {"estimate": True, "pps": [round(a) for a in alone],
                                                        **ratios(alone, peers)}
    if differences:
        data["derived"] = differences
    return data


def facts(command, began, cpu, seconds, **more):
    """What every data file says about its run."""
    return {"date": began.isoformat(timespec="seconds"), "command": command, "machine": machine(),
            "frame_bytes_without_crc": 60, "cpu": cpu, "seconds_each": seconds, **more}


def now():
    """The time, for `facts`."""
    return datetime.datetime.now(datetime.timezone.utc)


def save(directory, name, data):
    """Writes a data file."""
    path = pathlib.Path(directory)
    path.mkdir(parents=True, exist_ok=True)
    (path / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n")


def markdown(devices):
    """The tables of the documentation, from {device: data}."""
    lines = ["| device | case | Mpps (median) | ratio to testpmd | least | most |", "|---|---|---|---|---|---|"]
    for device, data in devices.items():
        lines.append(f"| `net_{device}` | testpmd | {statistics.median(data['peer_pps']) / 1e6:.1f} | 1 | | |")
        derived = {n: d for n, d in data.get("derived", {}).items() if "pps" in d}
        for name, case in [*data["cases"].items(), *derived.items()]:
            label = re.sub(r"-(\d+)$", r", \1", name).replace("-", " ") + (" (estimate)" if case.get("estimate") else "")
            lines.append(f"| `net_{device}` | {label} | {statistics.median(case['pps']) / 1e6:.1f} | {case['ratio_median']:.2f} | "
                         f"{case['ratio_min']:.2f} | {case['ratio_max']:.2f} |")
    costs = [(device, name, d) for device, data in devices.items() for name, d in data.get("derived", {}).items()
             if "ns_median" in d]
    if costs:
        lines += ["", "| device | cost | ns a packet (median) | least | most | is |", "|---|---|---|---|---|---|"]
        lines += [f"| `net_{device}` | {name.replace('-', ', ')} | {d['ns_median']:.1f} | {d['ns_min']:.1f} | {d['ns_max']:.1f} | "
                  f"{d['of']} |" for device, name, d in costs]
    for device, data in devices.items():
        loads = data["load_averages"]
        lines += ["", f"`net_{device}`: {data['date'][:16].replace('T', ' ')} UTC, {data['machine']}, load average "
                  f"{min(loads):.1f} to {max(loads):.1f}, {len(loads)} rounds of {data['seconds_each']} s, `{data['command']}`."]
    return "\n".join(lines)


def read_tables(paths):
    """{device: data} of data files called SUITE-DEVICE.json."""
    try:
        return {pathlib.Path(p).stem.rpartition("-")[2]: json.loads(pathlib.Path(p).read_text()) for p in paths}
    except (OSError, ValueError) as problem:
        sys.exit(f"cannot read the data: {problem}")
