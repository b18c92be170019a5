"""What `valiant bench run` says of its results: pages with plots, expectations, papers."""

import html.parser
import json
import pathlib
import urllib.error
import urllib.request

from harness import Plain, case, check, equal, wait_for
from lab import Lab, the_binary
from test_experiment import FORWARD, bench, experiment, laboratory, outcome, said

VOID = ("meta", "br")


class Page(html.parser.HTMLParser):
    """The elements of a page, and whether they are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.count: dict[str, int] = {}
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        check(tag not in ("script", "link", "iframe", "img") and "src" not in dict(attrs), f"{tag} {attrs}")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        equal(self.open.pop() if self.open else None, tag, "the element that ends")

    def handle_data(self, data: str) -> None:
        self.text += data


@case(Plain, seconds=90)
def an_experiment_becomes_a_page(lab: Lab) -> None:
    space = laboratory(lab)
    path = experiment(lab, FORWARD, "rate = 1000\n[vary]\nsize = [60, 508, 1514]\n[measure]\nlast = 0.2\n[experiment]\nrounds = 2\n")
    page, report = lab.dir / "page.html", lab.dir / "report.json"
    told = outcome(space, path, "--html", page)
    text = page.read_text()
    seen = Page(text)
    equal(seen.open, [], "elements that are not closed")
    # Packets, bits, latency and cycles by size; a point for each result, and two where L1 and L2 or two quantiles are.
    equal((seen.count["svg"], seen.count["figure"], seen.count["circle"]), (4, 4, 3 + 6 + 6 + 3), "plots")
    # Plots, results, jitter, what a packet costs by its size, the conditions, and the file.
    equal(seen.count["section"], 6, "sections")
    check("NaN" not in text and "rounds = 2" in seen.text and "1.00 k" in seen.text, seen.text)
    check(told["machine"]["kernel"] in seen.text and "valiant bench run" in seen.text, seen.text)
    # Alone on standard output.
    equal((bench(space, path, "--html", "-").wait(30), (lab.dir / "bench").read_text()), (0, text), "the page again")
    # A page that cannot be written does not cost the report.
    equal(bench(space, path, "--html", lab.dir / "none" / "page.html").wait(30), 1, "exit status")
    check("508" in (lab.dir / "bench").read_text() and "cannot write" in said(lab), said(lab))
    # The same page from the report.
    report.write_text(json.dumps(told))
    equal(space.popen(the_binary(), "bench", "report", report).wait(20), 0, "exit status")
    equal((lab.dir / "report.html").read_text(), text, "the page of the report")


def limited(lab: Lab, program: str) -> pathlib.Path:
    """An experiment that expects the rate to rise with the limit of its device."""
    return experiment(lab, program, """rate = 2000
[vary]
"$LIMIT" = [100, 1000]
[measure]
last = 0.5
[paper]
title = "A paper"
figure = "Figure 1"
unit = "pps"
x = "$LIMIT"
values = [{ x = 100, y = 100, section = "2" }]
[[expect]]
rises = "$LIMIT"
least = 2
why = "as Figure 1"
""")


@case(Plain, seconds=90)
def an_experiment_is_not_as_expected_when_its_factor_is_switched_off(lab: Lab) -> None:
    space = laboratory(lab)
    path = limited(lab, "define($LIMIT 0);\nFromDevice(in0) -> RatedSplitter($LIMIT, BURST_SIZE 10) -> ToDevice(in1);\n")
    report = outcome(space, path)
    equal([(of["holds"], of["why"]) for of in report["expect"]], [(True, "as Figure 1")], "what came of it")
    equal(report["paper"]["values"][0]["pps"], 100.0, "what the paper says")
    # Without the limit the rate is the same with any value.
    limited(lab, "define($LIMIT 0);\n" + FORWARD)
    report = outcome(space, path, "--restart", "--html", lab.dir / "page.html", status=4)
    equal([of["holds"] for of in report["expect"]], [False], "what came of it")
    check("does not hold" in Page((lab.dir / "page.html").read_text()).text, "the page")
    # The report as text, from what is kept.
    equal(bench(space, path).wait(30), 4, "exit status")
    check("rises with $LIMIT, 2 times or more in all: does not hold" in said(lab), said(lab))
    check("paper: A paper, Figure 1" in said(lab) and "100 pps" in said(lab), said(lab))
    check("not as expected" in said(lab), said(lab))


@case(Plain, seconds=90)
def an_experiment_that_has_failed_is_neither_as_expected_nor_not(lab: Lab) -> None:
    space = laboratory(lab)
    path = limited(lab, "define($LIMIT 0);\nFromDevice(in0) -> Discard;\n")
    report = outcome(space, path, status=3)
    equal([of["holds"] for of in report["expect"]], [None], "what came of it")


@case(Plain, seconds=90)
def programs_of_an_experiment_may_be_varied(lab: Lab) -> None:
    space = laboratory(lab)
    (lab.dir / "half.click").write_text("FromDevice(in0) -> s :: RoundRobinSwitch -> ToDevice(in1);\ns [1] -> Discard;\n")
    path = experiment(lab, FORWARD, """rate = 500
[vary]
program = ["device.click", "half.click"]
[measure]
last = 0.5
[[expect]]
ratio = [{ program = "half.click" }, { program = "device.click" }]
least = 0.2
most = 0.8
""")
    report = outcome(space, path)
    equal([row["point"]["program"] for row in report["results"]], ["device.click", "half.click"], "points")
    # The second one has changed.
    (lab.dir / "half.click").write_text(FORWARD)
    equal(bench(space, path).wait(20), 1, "exit status")
    check("has changed" in said(lab), said(lab))


@case(Plain, seconds=90, long=True)
def every_experiment_of_a_directory_is_run(lab: Lab) -> None:
    space = laboratory(lab)
    files = lab.dir / "files"
    files.mkdir()
    (files / "device.click").write_text(FORWARD)
    head = '[device]\nprogram = "device.click"\n[traffic]\nto = "eth0"\nsink = "eth1"\nrate = 1000\n[measure]\nlast = 0.2\n'
    (files / "a.toml").write_text(head + "[experiment]\nrounds = 9\n[vary]\nsize = [60, 100]\n")
    (files / "b.toml").write_text(head + '[vary]\nsize = [60, 1000]\n[[expect]]\nflat = "size"\nof = "gbps"\nwithin = 0.1\n')
    pages, out = lab.dir / "pages", lab.dir / "out"

    def papers(*options: object) -> int:
        with open(out, "w") as file:
            return space.popen(the_binary(), "bench", "papers", files, "--quick", *options, stdout=file).wait(80)

    equal(papers("--html", pages), 4, f"exit status\n{out.read_text()}")
    equal(out.read_text().splitlines()[-2:], ["a  as expected", "b  not as expected"], "the last lines")
    check("a, 3 rounds of each point" in out.read_text(), out.read_text())
    equal(sorted(page.name for page in pages.iterdir()), ["a.html", "b.html", "index.html"], "pages")
    index = (pages / "index.html").read_text()
    equal(Page(index).count["svg"], 2, "plots")
    check('href="a.html"' in index and 'href="b.html"' in index and "does not hold" in index, index)
    # What is measured is kept.
    kept = {file: file.read_text() for file in files.glob("*.quick.results/results.jsonl")}
    equal((len(kept), papers("-q")), (2, 4), "files of results, exit status")
    equal({file: file.read_text() for file in kept}, kept, "nothing is measured again")
    # A mistake in one file is told before anything is measured.
    (files / "c.toml").write_text("[vary]\n")
    equal(papers("--restart"), 1, "exit status")
    equal({file: file.read_text() for file in kept}, kept, "nothing is measured")


@case(Plain, seconds=90)
def a_running_experiment_is_seen_in_a_browser(lab: Lab) -> None:
    space = laboratory(lab)
    path = experiment(lab, FORWARD, "[vary]\nrate = [1000, 2000]\n[measure]\nlast = 0.5\n")
    server = space.popen(the_binary(), "bench", "serve", path, "--listen", "127.0.0.1:0", log="serve")
    wait_for("the server's address", lambda: server.log.read_text().endswith("/\n"), 10)
    url = server.log.read_text().strip()

    def get(what: str, method: str = "GET") -> tuple[int, str | None, str]:
        """Status, the header that has a browser ask again, and the content."""
        with space.inside():
            try:
                with urllib.request.urlopen(urllib.request.Request(url + what, method=method), timeout=10) as answer:
                    return answer.status, answer.headers["Refresh"], answer.read().decode()
            except urllib.error.HTTPError as e:
                return e.code, e.headers["Refresh"], e.read().decode()

    status, again, text = get("e")
    check((status, again) == (404, "2") and "nothing has been measured yet" in text, (status, again, text))
    equal((get("nothing")[0], get("..%2fe")[0], get("e", "POST")[0], get("")[:2]), (404, 404, 405, (200, "2")), "other answers")
    run = bench(space, path, "--json")
    # Seen before all is measured.
    wait_for("the first results", lambda: get("e.json")[0] == 200 and len(json.loads(get("e.json")[2])["results"]) > 0, 60, 0.1)
    equal(run.wait(60), 0, said(lab))
    told = json.loads((lab.dir / "bench").read_text())
    status, again, text = get("e")
    equal((status, again, Page(text).open), (200, None, []), "the page when all is measured")
    equal(json.loads(get("e.json")[2])["results"], told["results"], "results")
    check('href="e"' in get("")[2], get("")[2])
    server.terminate()
    equal(server.wait(10), 0, "exit status of the server")
