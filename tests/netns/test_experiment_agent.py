"""`valiant bench run` with a device on another host: an agent in another namespace, which a command reaches."""

import json
import os
import pathlib
import signal

from harness import Plain, case, check, equal, wait_for
from lab import Lab, Namespace, sh, the_binary
from test_experiment import FORWARD, bench, lines, outcome, said, trials

SHORT = '[measure]\nmost = "2k"\nfirst = 0.1\nlast = 0.2\nsum = 0.4\nwidth = "5%"\n'
LONG = '[measure]\nsearch = "rfc2544"\nmost = "2k"\nlast = 30\n'


def laboratory(lab: Lab) -> tuple[Namespace, Namespace]:
    """The generator's host has eth0 and eth1, the device's in0 and in1."""
    generator, device = lab.namespace("g"), lab.namespace("d")
    for number in range(2):
        lab.veth(generator, f"eth{number}", device, f"in{number}")
    return generator, device


def experiment(lab: Lab, device: Namespace, program: str, more: str, keys: str = "",
               traffic: str = 'to = "eth0"\nsink = "eth1"\n', valiant: object = None) -> pathlib.Path:
    """An experiment file whose device runs in a namespace, with temporary files in the laboratory's directory."""
    (lab.dir / "device.click").write_text(program)
    (lab.dir / "there").mkdir(exist_ok=True)
    host = json.dumps(["env", f"TMPDIR={lab.dir / 'there'}", "ip", "netns", "exec", device.name])
    path = lab.dir / "e.toml"
    what = "" if "command" in keys else 'program = "device.click"\n'
    path.write_text(f'[device]\n{what}host = {host}\nvaliant = "{valiant or the_binary()}"\n{keys}[traffic]\n{traffic}{more}')
    return path


def processes(device: Namespace) -> list[int]:
    """What runs in a namespace."""
    return [int(word) for word in sh("ip", "netns", "pids", device.name, check=False).split()]


def agents(device: Namespace) -> list[int]:
    found = []
    for process in processes(device):
        try:
            words = pathlib.Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[1:3] == [b"bench", b"agent"]:
            found.append(process)
    return found


def nothing_is_left(lab: Lab, device: Namespace) -> None:
    wait_for("the end of all on the device's host", lambda: not processes(device), 15)
    equal(list((lab.dir / "there").iterdir()), [], "files of the agent")


def why(lab: Lab, generator: Namespace, path: pathlib.Path, *options: str) -> str:
    """Why the only point has failed."""
    reasons = outcome(generator, path, *options, status=3)["results"][0]["failed"]
    equal(len(reasons), 1, f"reasons\n{said(lab)}")
    return str(reasons[0])


@case(Plain, seconds=90)
def a_device_on_another_host_is_measured(lab: Lab) -> None:
    generator, device = laboratory(lab)
    # A third of what comes finds the queue full.
    slow = "FromDevice(in0) -> c :: Counter -> q :: Queue($LENGTH) -> RatedUnqueue(200) -> ToDevice(in1);\n"
    measure = "rate = 300\n[vary]\nsize = [60, 200]\n[measure]\nlast = 0.5\n"
    path = experiment(lab, device, slow, measure, "threads = 1\nvariables = { LENGTH = 10 }\n")
    report = outcome(generator, path)
    for row, trial in zip(report["results"], [t for t in trials(path) if not t["disturbed"]], strict=True):
        cost = row["rounds"][0]["cost"]
        elements = {element["name"]: element for element in cost["elements"]}
        check(elements["c"]["packets"] >= trial["sent"] > trial["arrived"] > 0, f"{elements['c']} of {trial}")
        check(sum(elements["q"]["drops"].values()) >= trial["sent"] - trial["arrived"], f"{elements['q']} of {trial}")
        check(0 < cost["processor_seconds"] < cost["seconds"] * 64 and row["cost"]["memory_bytes"] > 1 << 20, cost)
    [machine] = report["device_machines"]
    name = pathlib.Path("/proc/sys/kernel/hostname").read_text().strip()
    equal((machine["host"], report["machine"]["host"]), (name, name), "host names")
    equal([line["line"] for line in lines(path)].count("device"), 1, "machines of the device")
    equal(bench(generator, path, "--html", lab.dir / "page.html").wait(30), 0, said(lab))
    check(f"The device on host {name}: {machine['model']}" in said(lab) and "cost to the device" in said(lab), said(lab))
    page = (lab.dir / "page.html").read_text()
    equal(page.count(">Kernel<"), 2, "machines on the page")
    nothing_is_left(lab, device)


@case(Plain, seconds=90)
def a_command_on_another_host_has_its_files(lab: Lab) -> None:
    generator, device = laboratory(lab)
    (lab.dir / "sub").mkdir()
    (lab.dir / "sub" / "dut").write_text('#!/bin/sh\necho "started in $(pwd) with $WORD"\nexec $VALIANT run forward.click\n')
    (lab.dir / "sub" / "dut").chmod(0o755)
    (lab.dir / "forward.click").write_text(FORWARD)
    keys = ('command = "exec sub/dut"\nready = 2\nfiles = ["sub/dut", "forward.click"]\n'
            f'variables = {{ WORD = "hello", VALIANT = "{the_binary()}" }}\n')
    path = experiment(lab, device, "", 'rate = 1000\n[measure]\nlast = 0.3\n', keys)
    report = outcome(generator, path)
    equal(report["results"][0]["pps"]["median"], 1000.0, "what came back")
    check(report["results"][0]["cost"]["memory_bytes"] > 1 << 20, report)
    log = (path.with_suffix(".results") / "device.log").read_text()
    check(f"started in {lab.dir / 'there'}/valiant-agent-" in log and "with hello" in log, log)
    nothing_is_left(lab, device)
    # It is another device now.
    (lab.dir / "forward.click").write_text("// changed\n" + FORWARD)
    equal(bench(generator, path).wait(20), 1, "exit status")
    check("its file or program has changed" in said(lab), said(lab))


@case(Plain, seconds=90)
def a_device_on_another_host_may_make_its_traffic(lab: Lab) -> None:
    generator, device = laboratory(lab)
    own = "InfiniteSource(LENGTH 60) -> out :: Counter -> Discard;\n"
    path = experiment(lab, device, own, "[measure]\nlast = 0.3\n", "threads = 1\n", 'count = "out"\nsize = 60\n')
    row = outcome(generator, path)["results"][0]
    check(row["pps"]["median"] > 1000 and row["cost"]["cycles_per_packet"] > 0, row)
    nothing_is_left(lab, device)


@case(Plain, seconds=90)
def a_bench_that_is_killed_leaves_nothing_on_the_other_host(lab: Lab) -> None:
    generator, device = laboratory(lab)
    path = experiment(lab, device, FORWARD, LONG)
    process = bench(generator, path)
    wait_for("the agent and the device", lambda: agents(device) and len(processes(device)) >= 3, 30)
    process.kill()
    process.wait(10)
    nothing_is_left(lab, device)
    # The same by Ctrl-C.
    process = bench(generator, path)
    wait_for("the agent and the device", lambda: agents(device) and len(processes(device)) >= 3, 30)
    process.send_signal(signal.SIGINT)
    equal(process.wait(20), 130, f"exit status\n{said(lab)}")
    nothing_is_left(lab, device)


@case(Plain, seconds=120)
def an_agent_that_is_killed_or_stands_still_fails_the_point(lab: Lab) -> None:
    generator, device = laboratory(lab)
    path = experiment(lab, device, FORWARD, LONG)

    def disturbed(number: int) -> str:
        process = bench(generator, path, "--json")
        [agent] = wait_for("the agent", lambda: agents(device), 30)
        wait_for("the first trial", lambda: "trial 1" in said(lab) or len(processes(device)) >= 3, 30)
        os.kill(agent, number)
        equal(process.wait(60), 3, f"exit status\n{said(lab)}")
        return str(json.loads((lab.dir / "bench").read_text())["results"][0]["failed"][0])

    reason = disturbed(signal.SIGKILL)
    check("the connection to the device's host has ended" in reason and "SIGKILL" in reason, reason)
    wait_for("the end of the device", lambda: not processes(device), 15)
    reason = disturbed(signal.SIGSTOP)
    check("has not answered for" in reason, reason)
    wait_for("the end of the device", lambda: not processes(device), 15)
    # Once it is reached again, it is measured. What the others could not remove is removed now.
    path.write_text(path.read_text().replace(LONG, SHORT))
    row = outcome(generator, path)["results"][0]
    equal((row["failed"], row["pps"]["median"]), ([], 2000.0), "result")
    nothing_is_left(lab, device)


@case(Plain, seconds=90)
def what_is_wrong_on_the_other_host_is_said(lab: Lab) -> None:
    generator, device = laboratory(lab)
    reason = why(lab, generator, experiment(lab, device, "FromDevice(in0) ->\n  ToDevise(in1);\n", SHORT))
    check("the device has ended (exit status 1)" in reason and "device.click:2:3" in reason and "ToDevise" in reason, reason)
    ended = "FromDevice(in0) -> c :: Counter -> ToDevice(in1);\nDriverManager(wait 1s, stop);\n"
    reason = why(lab, generator, experiment(lab, device, ended, LONG))
    check("in trial 1" in reason and "the device has ended (exit status 0)" in reason, reason)
    # What is run there is something else.
    other = lab.dir / "other"
    for script, parts in (
        ('echo \'{"hello":{"form":1,"version":"0.0.7"}}\'; cat', ["is Valiant 0.0.7, and this is Valiant"]),
        ("echo Last login: today; cat", ["no agent of Valiant's", "Last login: today"]),
        ("echo not permitted >&2; exit 255", ["(exit status 255): not permitted"]),
        ("exec none-of-this-name", ["exit status 127", "is Valiant installed there?"]),
    ):
        other.write_text(f"#!/bin/sh\n{script}\n")
        other.chmod(0o755)
        reason = why(lab, generator, experiment(lab, device, FORWARD, SHORT, valiant=other))
        for part in parts:
            check(part in reason, f"{part}: {reason}")
    path = experiment(lab, device, FORWARD, SHORT)
    path.write_text(path.read_text().replace('host = ["env"', 'host = ["/none/ssh"'))
    reason = why(lab, generator, path)
    check("cannot run /none/ssh" in reason and "`host` in [device]" in reason, reason)
    nothing_is_left(lab, device)
