"""Traffic matrices: which part of each input's frames goes to which output, and what comes out at the wrong one."""

import subprocess
from typing import Any

from harness import Plain, Router, case, check, equal
from lab import Lab, Namespace, the_binary
from test_experiment import outcome, outcome_text, trials
from test_traffic import generate

TO = ("--to", "pa", "--to", "pb")
SINKS = ("--sink", "pc", "--outputs", "10.1.0.0/16", "--sink", "pd", "--outputs", "10.2.0.0/16")
BACK = ("--reverse-outputs", "10.3.0.0/16", "--reverse-outputs", "10.4.0.0/16")
# Where each address is: at the ports pc, pd, pa, pb.
ROUTES = "10.1.0.0/16 0, 10.2.0.0/16 1, 10.3.0.0/16 2, 10.4.0.0/16 3"


def laboratory(lab: Lab) -> Namespace:
    """Four cables: pa and pb on one side, pc and pd on the other; the device has in-a and so on."""
    space = lab.namespace("x")
    for port in "abcd":
        lab.veth(space, f"p{port}", space, f"in-{port}")
    return space


def router(lab: Lab, routes: str = ROUTES) -> Any:
    """The program of a router with four ports."""
    program = lab.dir / "router.click"
    text = f"rt :: RadixIPLookup({routes});\n"
    for number, port in enumerate("cdab"):
        text += (f"FromDevice(in-{port}) -> c{number} :: Classifier(12/0800) -> Strip(14) -> CheckIPHeader -> rt;\n"
                 f"rt[{number}] -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:1:{number}, 2:0:0:0:0:9) -> ToDevice(in-{port});\n")
    program.write_text(text)
    return program


def matrix_of(report: Any) -> tuple[Any, Any]:
    return report["matrix"]["sent"], report["matrix"]["arrived"]


@case(Plain, seconds=60)
def each_output_gets_the_part_that_the_matrix_says(lab: Lab) -> None:
    space = laboratory(lab)
    Router(lab, space, router(lab))
    (lab.dir / "file.csv").write_text("# half of the first input\n0.5,0\n0.25 0.75\n")
    # Sent by a and by b, to c and to d, of 1000 frames for each port that sends all its rate.
    for matrix, counts in (("uniform", [[1000, 1000], [1000, 1000]]), ("permutation", [[0, 2000], [2000, 0]]),
                           ("1 0; 0 1", [[2000, 0], [0, 2000]]), ("0.9,0.1; 0.6,0.4", [[1800, 200], [1200, 800]]),
                           ("overload", [[1000, 1000], [2000, 0]]), ("pair", [[0, 4000], [0, 0]]),
                           (lab.dir / "file.csv", [[1334, 0], [666, 2000]])):
        report = generate(space, *TO, *SINKS, "--matrix", matrix, "-r", "8k", "-n", "4000", "-f", "20", "--max-loss", "0",
                          "--max-reordered", "0", "--max-misrouted", "0")
        sent, arrived = matrix_of(report)
        check(all(abs(is_ - should) <= 1 for is_, should in zip(sum(sent, []), sum(counts, []), strict=True)), f"{matrix}: {sent}")
        equal(arrived, sent, f"{matrix}: what arrived")
        equal((report["matrix"]["from"], report["matrix"]["to"], report["matrix"]["misrouted"]), (["pa", "pb"], ["pc", "pd"], 0), "ports")
        if matrix != lab.dir / "file.csv":
            equal(sent, counts, f"{matrix}: exactly")
    # With several threads, with flows of different sizes, and at random.
    report = generate(space, *TO, *SINKS, "--matrix", "0.75 0.25; 0 1", "-r", "8k", "-n", "4000", "-j", "2", "-f", "40", "--skew", "1",
                      "--max-loss", "0", "--max-reordered", "0", "--max-misrouted", "0")
    equal(matrix_of(report), ([[1500, 500], [0, 2000]],) * 2, "two threads")
    report = generate(space, *TO, *SINKS, "--matrix", "0.75 0.25; 0 1", "-r", "8k", "-n", "4000", "--random", "--max-loss", "0")
    sent, arrived = matrix_of(report)
    check(sent[0] != [1500, 500] and abs(sent[0][0] - 1500) < 150 and sent[1] == [0, 2000] and arrived == sent, f"{sent} {arrived}")


@case(Plain, seconds=60)
def frames_at_the_wrong_port_are_counted(lab: Lab) -> None:
    space = laboratory(lab)
    # One address of the second output is routed to the first.
    Router(lab, space, router(lab, ROUTES + ", 10.2.0.3/32 0"))
    options = (*TO, "--sink", "pc", "--outputs", "10.1.0.1", "--sink", "pd", "--outputs", "10.2.0.0/29", "-r", "8k", "-n", "3200")
    report = generate(space, *options, "--max-loss", "0", "--max-misrouted", "200")
    sent, arrived = matrix_of(report)
    equal((sent, arrived), ([[800, 800]] * 2, [[900, 700]] * 2), "sent and arrived")
    wrong = [{"from": port, "to": "pd", "at": "pc", "frames": 100} for port in ("pa", "pb")]
    equal((report["matrix"]["misrouted"], report["matrix"]["at_wrong_port"]), (200, wrong), "frames at the wrong port")
    report = generate(space, *options, "--max-misrouted", "199", status=3)
    check("200 frames at the wrong port, 199 allowed" in report["failures"], report["failures"])
    text = subprocess.run(space.command(the_binary(), "gen", "-q", *options), capture_output=True, text=True, check=True).stdout
    check("pa  900/800  700/800\n" in text, text)
    check("200 frames came out where their destination does not belong: 100 from pa for pd at pc" in text, text)


@case(Plain, seconds=60)
def both_sides_send_at_the_same_time(lab: Lab) -> None:
    space = laboratory(lab)
    Router(lab, space, router(lab))
    limits = ("-r", "4k", "-n", "4000", "--max-loss", "0", "--max-misrouted", "0")
    report = generate(space, *TO, *SINKS, *BACK, "--direction", "both", "--matrix", "permutation", *limits)
    equal((report["matrix"]["from"], report["matrix"]["to"]), (["pa", "pb", "pc", "pd"], ["pc", "pd", "pa", "pb"]), "ports")
    counts = [[0, 1000, 0, 0], [1000, 0, 0, 0], [0, 0, 0, 1000], [0, 0, 1000, 0]]
    equal(matrix_of(report), (counts, counts), "both directions")
    report = generate(space, *TO, *SINKS, *BACK, "--direction", "reverse", "--matrix", "1 0; 0.5 0.5", *limits)
    equal(report["matrix"]["from"], ["pc", "pd"], "ports that send")
    equal(matrix_of(report), ([[2000, 0], [1000, 1000]],) * 2, "the other direction")
    # Without outputs the source is the destination in the other direction.
    addresses = ("--to", "pa", "--sink", "pd", "--src", "10.3.0.1", "--dst", "10.2.0.1")
    report = generate(space, *addresses, "--direction", "both", "-f", "3", *limits)
    equal((report["sent"]["ports"], report["received"]["flows"]), (2, 6), "ports and flows")


@case(Plain, seconds=60)
def frames_that_return_to_their_own_side_are_at_the_wrong_port(lab: Lab) -> None:
    space = laboratory(lab)
    program = lab.dir / "back.click"
    program.write_text("".join(f"FromDevice(in-{port}) -> ToDevice(in-{port});\n" for port in "ad"))
    Router(lab, space, program)
    options = ("--to", "pa", "--sink", "pd", "--direction", "both", "-r", "4k", "-n", "400", "--max-misrouted", "0")
    report = generate(space, *options, status=3)
    wrong = [{"from": port, "to": "the other side", "at": port, "frames": 200} for port in ("pd", "pa")]
    equal((report["matrix"]["misrouted"], report["matrix"]["at_wrong_port"]), (400, wrong), "frames that came back")


@case(Plain, seconds=90, long=True)
def experiments_vary_the_matrix_and_the_direction(lab: Lab) -> None:
    space = laboratory(lab)
    router(lab, ROUTES + ", 10.2.0.3/32 0")
    path = lab.dir / "e.toml"
    path.write_text('[device]\nprogram = "router.click"\n[traffic]\nto = ["pa", "pb"]\nsink = ["pc", "pd"]\n'
                    'outputs = ["10.1.0.1", "10.2.0.0/29"]\nreverse-outputs = ["10.3.0.0/24", "10.4.0.0/24"]\nrate = 2000\n'
                    '[vary]\nmatrix = ["uniform", "1 0; 0 0.5"]\ndirection = ["forward", "reverse", "both"]\n[measure]\nlast = 0.5\n')
    report = outcome(space, path)
    # How many times the rate of a port is sent, and how much of it goes to the second output.
    expected = {("uniform", "forward"): (2, 1), ("uniform", "reverse"): (2, 0), ("uniform", "both"): (4, 1),
                ("1 0; 0 0.5", "forward"): (1.5, 0.5), ("1 0; 0 0.5", "reverse"): (1.5, 0), ("1 0; 0 0.5", "both"): (3, 0.5)}
    kept = [trial for trial in trials(path) if not trial["disturbed"]]
    for row, trial in zip(report["results"], kept, strict=True):
        point = row["point"]
        load, second = expected[point["matrix"], point["direction"]]
        equal(row["offered_pps"], int(2000 * load), f"{point}: rate")
        equal(trial["intended"], int(1000 * load), f"{point}: frames")
        matrix = row["rounds"][0]["matrix"]
        equal(len(matrix["from"]), 4 if point["direction"] == "both" else 2, f"{point}: ports that send")
        wrong = row["rounds"][0]["misrouted"]
        equal(wrong, sum(one["frames"] for one in matrix["at_wrong_port"]), f"{point}: {matrix}")
        # An eighth, if nothing was sent late.
        check(trial["missed"] or trial["sent"] - trial["arrived"] or abs(wrong - 1000 * second / 8) <= 2, f"{point}: {wrong} of {trial}")
    text = outcome_text(space, path)
    check("wrong port" in text and "frames from pb for pd came out at the wrong port pc" in text, text)
    for wrong, place in (('matrix = "1 0; 0"', ":4:"), ('matrix = "hot-spot"', ":4:"), ('direction = "back"', ":4:")):
        path.write_text(f'[traffic]\nto = ["pa", "pb"]\nsink = ["pc", "pd"]\n{wrong}\noutputs = ["10.1.0.1", "10.2.0.0/29"]\n')
        refused = subprocess.run(space.command(the_binary(), "bench", "run", path, "--plan"), capture_output=True, text=True, check=False)
        check(refused.returncode != 0 and f"e.toml{place}" in refused.stderr, f"{wrong}: {refused}")
    equal(report["outputs"], ["10.1.0.1", "10.2.0.0/29"], "outputs in the report")
