"""`valiant bench run`: rates without loss of devices whose limits are known, and experiments that are interrupted."""

import json
import pathlib
import signal
from typing import Any

from harness import Plain, case, check, equal, wait_for
from lab import Lab, Namespace, Process, the_binary

FORWARD = "FromDevice(in0) -> ToDevice(in1);\n"


def laboratory(lab: Lab) -> Namespace:
    """Two cables: generator and sink have eth0 and eth1, the device has in0 and in1."""
    space = lab.namespace("x")
    for number in range(2):
        lab.veth(space, f"eth{number}", space, f"in{number}")
    return space


def experiment(lab: Lab, device: str, measure: str, name: str = "e") -> pathlib.Path:
    """An experiment file, and the program of its device."""
    (lab.dir / "device.click").write_text(device)
    path = lab.dir / f"{name}.toml"
    path.write_text('[device]\nprogram = "device.click"\n[traffic]\nto = "eth0"\nsink = "eth1"\n' + measure)
    return path


def bench(space: Namespace, path: pathlib.Path, *options: object) -> Process:
    log = space.lab.dir / "bench"
    with open(log, "w") as out, open(f"{log}.err", "w") as errors:
        return space.popen(the_binary(), "bench", "run", path, *options, stdout=out, stderr=errors)


def said(lab: Lab) -> str:
    return (lab.dir / "bench").read_text() + (lab.dir / "bench.err").read_text()


def outcome(space: Namespace, path: pathlib.Path, *options: object, status: int = 0) -> Any:
    """The report of an experiment that runs to its end."""
    equal(bench(space, path, "--json", *options).wait(120), status, f"exit status\n{said(space.lab)}")
    return json.loads((space.lab.dir / "bench").read_text())


def outcome_text(space: Namespace, path: pathlib.Path) -> str:
    """The same as text."""
    equal(bench(space, path).wait(120), 0, f"exit status\n{said(space.lab)}")
    return said(space.lab)


def lines(path: pathlib.Path) -> list[Any]:
    """The lines of its results that are whole."""
    results = path.with_suffix(".results") / "results.jsonl"
    text = results.read_text() if results.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def trials(path: pathlib.Path) -> list[Any]:
    return [line["trial"] for line in lines(path) if line["line"] == "trial"]


def devices(lab: Lab) -> list[int]:
    """Processes that run a device's program or generate traffic in this laboratory's directory."""
    found = []
    for process in pathlib.Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
                if words[1:2] in ([b"run"], [b"gen"]) and (process / "cwd").readlink() == lab.dir:
                    found.append(int(process.name))
            except OSError:
                pass
    return found


@case(Plain, seconds=90)
def an_experiment_finds_the_limit_of_a_device(lab: Lab) -> None:
    space = laboratory(lab)
    limited = "FromDevice(in0) -> RatedSplitter(20000, BURST_SIZE 50) -> ToDevice(in1);\n"
    path = experiment(lab, limited, '[measure]\nloss = [0, "1%"]\nmost = "60k"\nfirst = 0.1\nlast = 0.5\nsum = 0.5\nwidth = "5%"\n'
                                       'latency = ["50%", 1]\n')
    report = outcome(space, path)
    strict, lax = report["results"]
    equal((strict["loss_allowed"], lax["loss_allowed"]), (0.0, 0.01), "goals")
    for trial in trials(path):
        what = f"trial {trial}"
        equal(trial["intended"], trial["missed"] + trial["refused"] + trial["sent"], what)
        check(abs(trial["intended"] - trial["rate"] * trial["seconds"]) <= 1, what)
        check(trial["arrived"] <= trial["sent"] and trial["duplicates"] == trial["reordered"] == 0, what)
    # What the bucket has at the beginning comes on top. How little it may be depends on who else uses this machine.
    check(0 < strict["pps"]["median"] <= 20_000 * 1.01 + 50 / 0.5, report)
    check(strict["pps"]["median"] <= lax["rounds"][0]["lower_pps"], report)
    equal(strict["rounds"][0]["loss"], 0.0, "loss at the result")
    result = strict["rounds"][0]["pps"]
    equal([(of["share"], len(of["rounds"])) for of in strict["latency_ns"]], [(0.5, 1), (1.0, 1)], "latency")
    shares = {t["share"]: t["rate"] for t in trials(path) if "share" in t}
    equal(shares, {0.5: int(result / 2), 1.0: int(result)}, "rates at which latency was measured")
    check(all(0 < of["p50"] <= of["p99"] <= of["max"] for of in strict["latency_ns"]), strict)
    equal(report["results"][0]["rounds_open"], 0, "open rounds")


@case(Plain, seconds=90)
def what_a_device_drops_is_counted_to_the_packet(lab: Lab) -> None:
    space = laboratory(lab)
    # One of a hundred.
    device = "FromDevice(in0) -> s :: RoundRobinSwitch;\nout :: ToDevice(in1);\ns [0] -> Discard;\n"
    device += "".join(f"s [{port}] -> out;\n" for port in range(1, 100))
    path = experiment(lab, device, '[vary]\nrate = [2000, 5000]\nsize = [60, 900]\n[measure]\nlast = 0.5\n')
    report = outcome(space, path)
    equal([list(row["point"].values()) for row in report["results"]],
          [["2000", "60"], ["2000", "900"], ["5000", "60"], ["5000", "900"]], "points")
    for row, shown in zip(report["results"], [t for t in trials(path) if not t["disturbed"]], strict=True):
        equal(row["offered_pps"], shown["rate"], "rate")
        sent, arrived = shown["sent"], shown["arrived"]
        equal(shown["bytes"], sent * int(row["point"]["size"]), "bytes")
        # Where in its hundred the device was is not known.
        check(sent // 100 <= sent - arrived <= -(-sent // 100), f"{sent - arrived} of {sent} lost")
        # A generator that has to wait for its processor may miss more than the device drops.
        equal(row["limit"], "generator" if shown["missed"] > sent - arrived else "device", "who has lost them")


@case(Plain, seconds=90)
def an_experiment_says_what_the_device_has_spent(lab: Lab) -> None:
    space = laboratory(lab)
    # A third of what comes finds the queue full.
    slow = "FromDevice(in0) -> c :: Counter -> q :: Queue(10) -> RatedUnqueue(200) -> ToDevice(in1);\n"
    path = experiment(lab, slow, "[vary]\nrate = [300, 3000]\n[measure]\nlast = 0.5\n")
    report = outcome(space, path)
    for row, trial in zip(report["results"], [t for t in trials(path) if not t["disturbed"]], strict=True):
        cost = row["rounds"][0]["cost"]
        elements = {element["name"]: element for element in cost["elements"]}
        # The kernel sends packets of its own too.
        check(elements["c"]["packets"] >= trial["sent"], f"{elements['c']} of {trial}")
        drops = sum(elements["q"]["drops"].values())
        check(drops >= trial["sent"] - trial["arrived"] > 0, f"{elements['q']} of {trial}")
        cycles = sum(element["cycles"] for element in elements.values())
        check(abs(row["cost"]["cycles_per_packet"] - cycles / trial["sent"]) < 1e-6, f"{row['cost']}, {cycles} cycles")
        check(abs(sum(element["share"] for element in elements.values()) - 1) < 1e-6, elements)
        check(row["cost"]["load"] > 0 and row["cost"]["batch"] >= 1 and row["cost"]["memory_bytes"] > 1 << 20, row["cost"])
        check(0 < cost["processor_seconds"] < cost["seconds"] * 64, cost)
        # Not every machine has these; then it says why.
        check("not_available" in cost["counted"] or cost["counted"]["instructions"] > 0, cost["counted"])
        check(isinstance(cost["joules"], float) or cost["joules"]["not_available"], cost["joules"])
    equal(bench(space, path).wait(30), 0, said(lab))
    told = said(lab)
    check("cost to the device" in told and "cycles/packet" in told and "dropped: " in told and " by q: " in told, told)


@case(Plain, seconds=90)
def a_report_says_when_frames_were_lost(lab: Lab) -> None:
    space = laboratory(lab)
    # Nothing passes for a moment, again and again.
    device = ("FromDevice(in0) -> s :: Switch(0) -> ToDevice(in1);\ns [1] -> Discard;\n"
              "Script(wait 400ms, write s.switch 1, wait 100ms, write s.switch 0, loop);\n")
    path = experiment(lab, device, "[vary]\nrate = [2000]\n[measure]\nlast = 1\n")
    row = outcome(space, path)["results"][0]["rounds"][0]
    [trial] = [t for t in trials(path) if not t["disturbed"]]
    line = row["timeline"]
    equal(line, trial["timeline"], "spans of time")
    equal((line["span_s"], sum(line["sent"])), (0.1, trial["sent"]), "frames that were sent")
    equal((sum(line["arrived"]), sum(line["came"])), (trial["arrived"], trial["arrived"]), "frames that arrived")
    lost = [sent - arrived for sent, arrived in zip(line["sent"], line["arrived"], strict=True)]
    check(max(lost) > 0 and min(lost) == 0, f"lost in each span: {lost}")
    # A histogram of latencies keeps three digits.
    longest = trial["latency_ns"]["max"]
    check(abs(max(line["latency_max_ns"]) / longest - 1) < 0.002, f"{line} and {longest}")
    check(0 < row["jitter_ns"]["ipdv_mean"] <= row["jitter_ns"]["ipdv_max"] <= longest, row["jitter_ns"])
    equal(bench(space, path).wait(30), 0, said(lab))
    check("lost: in " in said(lab) and "IPDV" in said(lab), said(lab))


@case(Plain, seconds=120, long=True)
def the_longest_burst_without_loss_is_that_of_the_queue(lab: Lab) -> None:
    space = laboratory(lab)
    length, rate, most = 300, 1000, 20_000
    device = f"FromDevice(in0) -> q :: Queue({length}) -> RatedUnqueue({rate}) -> ToDevice(in1);\n"
    path = experiment(lab, device, f'[measure]\nsearch = "back-to-back"\nmost = {most}\nleast = 100\nfirst = 0.2\nlast = 1\nsum = 1\n'
                                   'width = "10%"\ntests = 2\nlongest = "100ms"\nwait = "200ms"\n')
    report = outcome(space, path)["results"][0]
    bursts = report["back_to_back"]
    equal((bursts["tests"], bursts["rate_pps"], bursts["longest_frames"], bursts["at_longest"]), (2, most, most // 10, False), bursts)
    # As many as fit, less the step; and what has left the queue until all of the burst had come, which may be late.
    for found in bursts["lengths"]:
        sent = max(t["burst"]["seconds"] for t in trials(path) if t.get("burst", {}).get("frames") == found)
        check(length - bursts["step_frames"] <= found <= length + 50 + rate * (sent + 0.1), f"{found} frames in {sent} s: {bursts}")
    mean, throughput = sum(bursts["lengths"]) / 2, report["pps"]["median"]
    implied = mean / most
    check(abs(bursts["implied_buffer_s"] - implied) < 1e-9, bursts)
    check(abs(bursts["corrected_buffer_s"] - implied * (1 - throughput / most)) < 1e-9, bursts)
    equal((bursts["frames"]["mean"], bursts["throughput_pps"]), (mean, throughput), bursts)
    for trial in trials(path):
        if "burst" in trial:
            equal((trial["intended"], trial["rate"]), (trial["burst"]["frames"], most), f"frames of {trial}")
    equal(bench(space, path).wait(30), 0, said(lab))
    check("longest burst without loss" in said(lab), said(lab))


@case(Plain, seconds=90)
def an_experiment_that_is_killed_goes_on_where_it_was(lab: Lab) -> None:
    space = laboratory(lab)
    path = experiment(lab, FORWARD, "[experiment]\nrounds = 2\n[vary]\nsize = [60, 200]\n"
                                    '[measure]\nmost = "2k"\nfirst = 0.1\nlast = 0.4\nsum = 0.8\nwidth = "5%"\n')
    process = bench(space, path)
    wait_for("two trials", lambda: len(trials(path)) >= 2, 30)
    process.kill()
    process.wait(10)
    kept = lines(path)
    wait_for("the end of the device and the generator", lambda: not devices(lab), 10)
    # As if it had been writing.
    with open(path.with_suffix(".results") / "results.jsonl", "a") as results:
        results.write('{"line":"trial","poi')
    report = outcome(space, path)
    equal(lines(path)[:len(kept)], kept, "what was measured before")
    equal([(row["rounds_open"], len(row["rounds"]), row["failed"]) for row in report["results"]], [(0, 2, [])] * 2, "rounds")
    # Nothing is left to do.
    before = lines(path)
    equal(outcome(space, path), report, "the report again")
    equal(lines(path), before, "trials")
    # It is another experiment now.
    path.write_text(path.read_text().replace("200", "300"))
    equal(bench(space, path).wait(20), 1, "exit status")
    check("another experiment" in said(lab) and "--restart" in said(lab), said(lab))


@case(Plain, seconds=90)
def ctrl_c_ends_an_experiment_and_its_device(lab: Lab) -> None:
    space = laboratory(lab)
    path = experiment(lab, FORWARD, '[measure]\nsearch = "rfc2544"\nmost = "2k"\nlast = 30\n')
    process = bench(space, path)
    wait_for("the generator", lambda: len(devices(lab)) >= 2, 30)
    process.send_signal(signal.SIGINT)
    equal(process.wait(15), 130, f"exit status\n{said(lab)}")
    check("goes on where it was" in said(lab) and "not measured yet" in said(lab), said(lab))
    wait_for("the end of the device and the generator", lambda: not devices(lab), 10)


@case(Plain, seconds=90)
def an_experiment_says_what_is_wrong_with_its_device(lab: Lab) -> None:
    space = laboratory(lab)
    measure = '[measure]\nmost = "1k"\nfirst = 0.1\nlast = 0.2\nsum = 0.2\nwidth = "10%"\n'
    path = experiment(lab, "FromDevice(in0) -> ToDevise(in1);\n", measure)
    equal(bench(space, path).wait(30), 3, f"exit status\n{said(lab)}")
    check("the device has ended" in said(lab) and "ToDevise" in said(lab), said(lab))
    # Nothing comes back.
    experiment(lab, "FromDevice(in0) -> Discard;\n", measure)
    equal(bench(space, path).wait(60), 3, f"exit status\n{said(lab)}")
    check("nothing of what is sent to eth0 comes back at eth1" in said(lab), said(lab))
    # It ends in the middle.
    experiment(lab, "FromDevice(in0) -> c :: Counter -> ToDevice(in1);\nDriverManager(wait 1s, stop);\n", measure)
    report = outcome(space, path, status=3)
    failed = report["results"][0]["failed"][0]
    check("in trial " in failed and "the device has ended" in failed, report)
    # Mended, it is measured.
    experiment(lab, FORWARD, measure)
    report = outcome(space, path, "--restart")
    equal((report["results"][0]["failed"], report["results"][0]["pps"]["median"]), ([], 1000.0), "result")
    equal(report["results"][0]["limit"], None, "limit")


@case(Plain, seconds=90)
def rates_of_several_ports_are_added(lab: Lab) -> None:
    space = laboratory(lab)
    both = "FromDevice(in0) -> ToDevice(in1);\nFromDevice(in1) -> ToDevice(in0);\n"
    reports = {}
    for name, how in (("search", '[measure]\nmost = "1k"\nfirst = 0.2\nlast = 0.2\nsum = 0.2\n'), ("rate", "[measure]\nlast = 0.2\n")):
        path = experiment(lab, both, how, name)
        rate = "rate = 1000\n" if name == "rate" else ""
        path.write_text(path.read_text().replace('to = "eth0"\nsink = "eth1"\n', f'to = ["eth0", "eth1"]\nsink = ["eth0", "eth1"]\n{rate}'))
        reports[name] = outcome(space, path)["results"][0]
    equal((reports["search"]["pps"]["median"], reports["rate"]["pps"]["median"]), (2000.0, 2000.0), "what came back")
    equal((reports["search"]["rounds"][0]["lower_pps"], reports["rate"]["offered_pps"]), (2000, 2000), "rates")


@case(Plain, seconds=90)
def a_device_that_loses_too_much_at_any_rate_has_failed(lab: Lab) -> None:
    space = laboratory(lab)
    half = "FromDevice(in0) -> s :: RoundRobinSwitch -> ToDevice(in1);\ns [1] -> Discard;\n"
    measure = '[measure]\nmost = "2k"\nfirst = 0.1\nlast = 0.1\nsum = 0.1\nwidth = "40%"\n'
    path = experiment(lab, half, measure)
    report = outcome(space, path, status=3)
    check("lost at the lowest rate" in report["results"][0]["failed"][0], report)
    # It is measured again, also if nothing in the files has changed.
    before = len(trials(path))
    outcome(space, path, status=3)
    check(len(trials(path)) > before, "it was not measured again")


def commanded(lab: Lab, command: str, vary: str) -> pathlib.Path:
    """An experiment whose device is a command, at 1,000 packets a second."""
    (lab.dir / "device.click").write_text(FORWARD.replace("in1", "$OUT"))
    path = lab.dir / "command.toml"
    path.write_text(f"""[device]
command = "{command}"
ready = 2
[device.variables]
WHERE = "in1"
[traffic]
to = "eth0"
sink = "eth1"
rate = 1000
[vary]
{vary}
[measure]
last = 0.3
""")
    return path


@case(Plain, seconds=90)
def what_a_command_starts_ends_with_it(lab: Lab) -> None:
    space = laboratory(lab)
    command = f"X=1; cd {lab.dir} && {the_binary()} run device.click OUT=$WHERE | cat"
    report = outcome(space, commanded(lab, command, "size = [60, 100]"))
    equal([row["pps"]["median"] for row in report["results"]], [1000.0, 1000.0], "what came back")
    equal([row["rounds"][0]["duplicates"] for row in report["results"]], [0, 0], "duplicates")
    for cost in [row["cost"] for row in report["results"]]:
        check(cost["processors"] > 0 and cost["memory_bytes"] > 1 << 20 and cost["cycles_per_packet"] is None, cost)
    check(not devices(lab), "a device is still there")


@case(Plain, seconds=90)
def a_command_may_be_the_device(lab: Lab) -> None:
    space = laboratory(lab)
    report = outcome(space, commanded(lab, f"{the_binary()} run device.click OUT=$WHERE", "flows = [1, 10]"))
    equal([row["pps"]["median"] for row in report["results"]], [1000.0, 1000.0], "what came back")
    check(not devices(lab), "the device is still there")


@case(Plain, seconds=90)
def what_generator_and_sink_take_is_taken_off(lab: Lab) -> None:
    space = laboratory(lab)
    lab.veth(space, "cable0", space, "cable1")
    path = experiment(lab, FORWARD, '[measure]\nlast = 0.3\n[calibrate]\nto = "cable0"\nsink = "cable1"\n')
    path.write_text(path.read_text().replace('sink = "eth1"\n', 'sink = "eth1"\nrate = "5k"\n', 1))
    report = outcome(space, path)
    good = [trial for trial in trials(path) if not trial["disturbed"]]
    equal([trial.get("calibration", False) for trial in good], [False, True], "trials")
    with_device, alone = (trial["latency_ns"]["p50"] for trial in good)
    row = report["results"][0]
    equal([(one["rate"], one["latency_p50_ns"]) for one in row["calibration"]], [(5000, alone)], "calibration")
    equal(row["rounds"][0]["latency_p50_ns"], with_device - alone, "latency without generator and sink")
    check(f"{alone / 1e3:.1f} us" in outcome_text(space, path), said(lab))
    # Nothing is measured again.
    equal(len([trial for trial in trials(path) if not trial["disturbed"]]), 2, "trials after a second run")
    # Ports that are not joined to each other.
    path.write_text(path.read_text().replace('sink = "cable1"', 'sink = "lo"'))
    equal(bench(space, path, "--restart").wait(60), 3, "exit status")
    check("are these ports joined" in said(lab), said(lab))
