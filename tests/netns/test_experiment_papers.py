"""The papers' experiments in experiments/: what they expect does not hold when the factor that makes the difference is switched off."""

import json
import shutil

from harness import Plain, Skip, case, check, equal
from lab import ROOT, Lab
from test_experiment import bench, said

# Makes as many packets whatever the placement of workers is.
ALIKE = """in0 :: InfiniteSource(LENGTH 60) -> out0 :: Counter -> Discard;
in1 :: InfiniteSource(LENGTH 60) -> out1 :: Counter -> Discard;
StaticThreadSched(in0 0, in1 1);
"""


def switched_off(
    lab: Lab, name: str, replaced: dict[str, dict[str, str]], programs: dict[str, str], wrong: list[int], rounds: int = 1
) -> None:
    """Runs an experiment in so many rounds, with these texts replaced in files of its directory, and these programs in place of others; of
    what it expects, these do not hold. An expectation that is nearer than a fifth to what is seen without its factor needs more rounds than
    one, and runs only when asked for: chance decides otherwise."""
    files = lab.dir / "experiments"
    shutil.copytree(ROOT / "experiments", files, ignore=lambda _, names: [one for one in names if one.endswith(".results")])
    path = files / f"{name}.toml"
    # Some commands are programs of the repository.
    (lab.dir / "scripts").symlink_to(ROOT / "scripts")
    times = {line: f"rounds = {rounds}" for line in path.read_text().splitlines() if line.startswith("rounds = ")}
    own = f"{name}.toml"
    all_replaced = {**replaced, own: {**replaced.get(own, {}), **times}}
    for file, texts in all_replaced.items():
        text = (files / file).read_text()
        for old, new in texts.items():
            check(old in text, f"{old} is not in {file}")
            text = text.replace(old, new)
        (files / file).write_text(text)
    for file, text in programs.items():
        (files / file).write_text(text)
    space = lab.namespace("x")
    # Others may have the processors in one moment and not in the next: chance does not hide the same three times.
    hidden = list(wrong)
    for left in (2, 1, 0):
        status = bench(space, path, "--json", "--restart").wait(80 * rounds)
        if "other programs had the processors" in said(lab):
            raise Skip("other programs have the processors")
        check(status in (0, 4), f"exit status {status}\n{said(lab)}")
        verdicts = json.loads((lab.dir / "bench").read_text())["expect"]
        failed = [number for number in wrong if verdicts[number]["holds"] is False]
        equal(status, 4 if any(one["holds"] is False for one in verdicts) else 0, f"exit status\n{said(lab)}")
        hidden = [number for number in hidden if number not in failed]
        if not hidden:
            return
        check(left > 0, f"{[verdicts[number] for number in hidden]}\n{said(lab)}")


def program(name: str) -> str:
    return (ROOT / "experiments" / name).read_text()


@case(Plain, seconds=90, long=True)
def sharing_of_cores_and_queues_is_seen(lab: Lab) -> None:
    parallel, queues, overlapping = (program(f"figure6{letter}.click") for letter in "bdf")
    # All that cross cores do not.
    programs = {"figure6a.click": parallel, "figure6c.click": queues, "figure6e.click": overlapping}
    switched_off(lab, "routebricks-figure6", {}, programs, [0, 1, 2, 3])


@case(Plain, seconds=750, long=True)
def the_sum_of_queues_and_batches_is_seen(lab: Lab) -> None:
    batches = {"burst = [1, 32]": "burst = [32, 33]", "burst = 1 ": "burst = 33 "}
    queues = {"figure6e.click": program("figure6f.click")}
    switched_off(lab, "routebricks-figure7", {"routebricks-figure7.toml": batches}, queues, [0, 1, 2], rounds=3)


@case(Plain, seconds=90)
def load_over_rate_and_application_is_seen(lab: Lab) -> None:
    # Nothing waits, and all applications are forwarding.
    forward = program("figure9-forward.click").replace("POLL_INTERVAL $EVERY", "POLL_INTERVAL 0")
    programs = {f"figure9-{name}.click": forward for name in ("forward", "route", "ipsec")}
    switched_off(lab, "routebricks-figures9-10", {}, programs, [0, 2, 3])


@case(Plain, seconds=90)
def queues_in_place_of_software_are_seen(lab: Lab) -> None:
    switched_off(lab, "presto10-figures2-3", {}, {"figure4-one-port.click": ALIKE}, [0, 1])


@case(Plain, seconds=750, long=True)
def queues_of_one_port_are_seen(lab: Lab) -> None:
    switched_off(lab, "presto10-figures4-5", {}, {"figure4-one-port.click": program("figure6b.click")}, [0], rounds=3)


@case(Plain, seconds=90, long=True)
def the_balance_of_flows_is_seen(lab: Lab) -> None:
    # As many flows whatever the experiment says, all alike.
    constant = program("balance.click").replace("FLOWS $FLOWS, SKEW $SKEW", "FLOWS 64")
    switched_off(lab, "presto10-balance", {}, {"balance.click": constant}, [0, 1])


@case(Plain, seconds=90)
def kinds_of_processing_are_seen(lab: Lab) -> None:
    # All kinds are none.
    none = program("processing-none.click")
    programs = {f"processing-{kind}.click": none for kind in ("filter", "inspect", "log")}
    switched_off(lab, "routebricks-processing", {}, programs, [0, 1, 2])


@case(Plain, seconds=750, long=True)
def the_look_up_and_its_limit_are_seen(lab: Lab) -> None:
    # Nobody looks a route up, and all packets are large.
    large = program("conext08-forward.click").replace("SIZE $SIZE,", "SIZE 1020,")
    programs = {"conext08-forward.click": large, "conext08-route.click": large}
    switched_off(lab, "conext08-figures2-4", {}, programs, [0, 2], rounds=3)


@case(Plain, seconds=90, long=True)
def the_size_of_packets_is_seen(lab: Lab) -> None:
    programs = {name: program(name).replace("SIZE $SIZE,", "SIZE 60,") for name in ("conext08-forward.click", "conext08-route.click")}
    switched_off(lab, "conext08-figures2-4", {}, programs, [1, 3])


@case(Plain, seconds=90)
def ports_that_cost_something_are_seen(lab: Lab) -> None:
    # What the elimination would find if it were the ports.
    dear = program("conext08-ports4.click").replace("W 20", "W 200")
    switched_off(lab, "conext08-placement", {}, {"conext08-ports4.click": dear}, [0])


@case(Plain, seconds=750, long=True)
def the_placement_of_paths_is_seen(lab: Lab) -> None:
    # All tasks are on one core, wherever they should be.
    one = program("conext08-figure8a.click")
    programs = {f"conext08-figure8{letter}.click": one for letter in "bd"}
    switched_off(lab, "conext08-figure8", {}, programs, [0, 1, 2], rounds=3)


@case(Plain, seconds=750, long=True)
def packets_that_change_cores_at_a_queue_are_seen(lab: Lab) -> None:
    own = program("conext08-figure10.click").replace("Switch($CROSS)", "Switch(0)")
    switched_off(lab, "conext08-figure10", {}, {"conext08-figure10.click": own}, [0], rounds=3)


@case(Plain, seconds=90, long=True)
def the_shared_queue_is_seen(lab: Lab) -> None:
    shared, own = (program(f"conext08-figure11-{queues}.click") for queues in ("shared", "own"))
    programs = {"conext08-figure11-shared.click": own, "conext08-figure11-own.click": shared}
    switched_off(lab, "conext08-figure11", {}, programs, [0, 1])


def with_command(lab: Lab, name: str, old: str, new: str, wrong: list[int]) -> None:
    """The same for an experiment whose command has another word."""
    switched_off(lab, name, {f"{name}.toml": {old: new}}, {}, wrong)


@case(Plain, seconds=90)
def traffic_and_policy_of_a_cluster_are_seen(lab: Lab) -> None:
    with_command(lab, "routebricks-cluster", '-m "$MATRIX" --mode "$MODE"', "-m permutation --mode valiant", [0, 1, 2])


@case(Plain, seconds=90)
def flowlets_are_seen(lab: Lab) -> None:
    with_command(lab, "routebricks-reordering", '--delta "$DELTA"', "--delta none", [0])


@case(Plain, seconds=90, long=True)
def single_paths_are_seen(lab: Lab) -> None:
    # Load balancing everywhere.
    with_command(lab, "routebricks-single-path", '--mode "$MODE"', "--mode adaptive", [0, 1, 3])


@case(Plain, seconds=90, long=True)
def the_scheduler_is_seen(lab: Lab) -> None:
    scheduled = '--mode "$(echo "$MODE" | sed s/scheduled/single/)"'
    with_command(lab, "routebricks-single-path", '--mode "$MODE"', scheduled, [2, 3])


@case(Plain, seconds=90, long=True)
def the_next_server_is_seen(lab: Lab) -> None:
    replaced = {"routebricks-projection.toml": {'--scale "$SERVER" --json "$PROGRAM"': '--scale cpu=1 --json figure9-forward.click'}}
    switched_off(lab, "routebricks-projection", replaced, {}, [0, 1, 2])


@case(Plain, seconds=90)
def ports_and_servers_are_seen(lab: Lab) -> None:
    with_command(lab, "routebricks-form-factor", '--ports "$PORTS" --server "$SERVER"', "--ports 128", [0, 1, 2])


@case(Plain, seconds=90, long=True)
def what_a_node_does_is_seen(lab: Lab) -> None:
    # Of one run, always the same case.
    run = '../scripts/bench-predict --case "$CASE" --rounds 3 --seconds 0.5 --small-pages --json'
    direct = run.replace('"$CASE"', "direct")
    once = f"{{ [ -s once ] || {direct} >once; cat once; }}"
    replaced = {"routebricks-rates.toml": {run: once, 'os.environ["CASE"]': '"direct"'}}
    switched_off(lab, "routebricks-rates", replaced, {}, [0, 1, 2])


@case(Plain, seconds=90, long=True)
def the_function_that_is_rolled_out_is_seen(lab: Lab) -> None:
    with_command(lab, "root/routebricks-rollout", '--function "$FUNCTION"', "--function none", [0])
