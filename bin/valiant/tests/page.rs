//! `valiant bench report`: the page as a browser draws it.

#[path = "../../../tests/skip.rs"]
mod skip;

mod browser;

use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

/// What is looked at in the browser: colors, plots, and texts of plots that touch each other or stand
/// outside.
const LOOK: &str = r##"<script>
const color = (node, what) => getComputedStyle(node)[what];
const plots = [...document.querySelectorAll("figure svg")].map(svg => {
  const frame = svg.getBoundingClientRect();
  // What leans has a frame that is larger than it is.
  const texts = [...svg.querySelectorAll("text")].filter(t => !(t.getAttribute("transform") || "").match(/rotate\(-(?!90)/));
  const boxes = texts.map(t => [t.textContent, t.getBoundingClientRect()]);
  const touch = [];
  for (const [i, [a, p]] of boxes.entries()) {
    for (const [b, q] of boxes.slice(i + 1))
      if (p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 1 && q.top < p.bottom - 1) touch.push(a + " | " + b);
    if (p.left < frame.left - 1 || p.right > frame.right + 1 || p.top < frame.top - 1 || p.bottom > frame.bottom + 1) touch.push("outside: " + a);
  }
  const legend = svg.querySelector("rect.legend");
  return {touch, wide: frame.width, high: frame.height, lines: svg.querySelectorAll("polyline").length,
    points: svg.querySelectorAll("circle.full, circle.open").length, spreads: svg.querySelectorAll(".spread").length,
    x: svg.querySelectorAll(".x.mark").length, y: svg.querySelectorAll(".y.mark").length, labels: svg.querySelectorAll(".label").length,
    covered: legend ? [...svg.querySelectorAll("circle.full title, circle.open title")].filter(t => {
      const p = t.parentNode.getBoundingClientRect(), q = legend.getBoundingClientRect();
      return p.left < q.right && q.left < p.right && p.top < q.bottom && q.top < p.bottom }).length : 0,
    back: color(svg.querySelector(".back"), "fill"), ink: color(svg.querySelector("text"), "fill"), first: color(svg.querySelector(".c0"), "stroke")};
});
const root = document.documentElement;
root.setAttribute("data-seen", encodeURIComponent(JSON.stringify({plots, back: color(document.body, "backgroundColor"),
  ink: color(document.body, "color"), wider: root.scrollWidth - root.clientWidth, rows: document.querySelectorAll("#results tbody tr").length})));
</script>"##;

/// A report of an experiment over sizes, programs and losses.
fn report() -> Value {
    let (sizes, programs) = (
        ["60", "508", "1020", "1514"],
        ["a-program-with-a-long-name.click", "b.click", "c.click", "d.click"],
    );
    let mut rows = Vec::new();
    for (number, program) in programs.iter().enumerate() {
        for size in sizes {
            let bytes: f64 = size.parse().unwrap();
            let pps = 4e9 / (1000.0 + bytes) / (number + 1) as f64;
            let gbps = |more: f64| pps * (bytes + more) * 8.0 / 1e9;
            let round = |pps: f64| {
                json!({"pps": pps, "loss": 0.001, "frame_bytes": bytes, "trials": 9, "traffic_seconds": 2.0,
                    "latency_p50_ns": 2e4, "latency_p99_ns": 1.2e5, "reordered": 0, "duplicates": 0, "damaged": 0})
            };
            rows.push(json!({"point": {"size": size, "program": program}, "loss_allowed": 0.005, "limit": "device",
                "pps": {"median": pps, "least": pps * 0.9, "most": pps * 1.05}, "l2_gbps": gbps(0.0), "l1_gbps": gbps(24.0),
                "rounds": [round(pps), round(pps * 0.9), round(pps * 1.05)]}));
        }
    }
    json!({"format": 1, "experiment": "drawn", "version": "0.1.0", "rounds": 3, "file": "[traffic]\n",
        "factors": [{"name": "size", "values": sizes}, {"name": "program", "values": programs}],
        "paper": {"title": "P", "figure": "F", "source": "", "unit": "Mpps", "x": "size",
            "values": [{"x": "60", "y": 18.96, "of": "", "section": "5.2", "pps": 18.96e6, "l1_gbps": 12.7}]},
        "results": rows})
}

fn valiant(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_valiant")).current_dir(dir).args(arguments).output().unwrap()
}

/// The report of a directory as a page.
fn page_in(dir: &Path) -> String {
    std::fs::write(dir.join("report.json"), report().to_string()).unwrap();
    let done = valiant(dir, &["bench", "report", "report.json"]);
    assert!(done.status.success(), "{done:?}");
    std::fs::read_to_string(dir.join("report.html")).unwrap()
}

#[test]
fn a_browser_draws_the_page() {
    let dir = tempfile::tempdir().unwrap();
    let page = page_in(dir.path());
    let number = |value: &Value| value.as_f64().unwrap();
    let mut colors = Vec::new();
    for (wide, dark) in [(1300, false), (1300, true), (500, false)] {
        let Some(seen) = browser::seen(dir.path(), &page, LOOK, (wide, dark)) else {
            skip::skip("chromium is not installed");
            return;
        };
        let plots = seen["plots"].as_array().unwrap();
        assert!(plots.len() >= 6, "{} plots", plots.len());
        for plot in plots {
            assert_eq!(plot["touch"], json!([]), "width {wide}: {plot:#}");
            assert_eq!(plot["covered"], 0, "{plot:#}");
            let counts = ["x", "y", "labels"].map(|name| number(&plot[name]));
            assert!(counts[0] >= 4.0 && counts[1] >= 3.0 && counts[2] == 2.0, "{plot:#}");
            assert!(number(&plot["points"]) >= 16.0, "{plot:#}");
            assert!(number(&plot["wide"]) > 350.0 && number(&plot["wide"]) < f64::from(wide), "{plot:#}");
        }
        // The rate by size: four curves and the paper's point, each point with its spread.
        assert_eq!((number(&plots[0]["lines"]), number(&plots[0]["points"])), (5.0, 17.0), "{:#}", plots[0]);
        assert_eq!(number(&plots[0]["spreads"]), 16.0, "{:#}", plots[0]);
        // By program, points stand alone.
        assert_eq!(number(&plots[3]["lines"]), 0.0, "{:#}", plots[3]);
        assert_eq!((number(&seen["wider"]), number(&seen["rows"])), (0.0, 16.0), "width {wide}");
        let of = |value: &Value| value.as_str().unwrap().to_owned();
        colors.push(
            [&seen["back"], &seen["ink"], &plots[0]["back"], &plots[0]["ink"], &plots[0]["first"]].map(of),
        );
    }
    let [light, dark, narrow] = &colors[..] else { panic!("{colors:?}") };
    assert_eq!(light, narrow, "colors do not depend on the width");
    assert_eq!((light[0].as_str(), dark[0].as_str()), ("rgb(255, 255, 255)", "rgb(24, 24, 24)"), "pages");
    assert_eq!((light[2].as_str(), dark[2].as_str()), ("rgb(255, 255, 255)", "rgb(24, 24, 24)"), "plots");
    (1..5).for_each(|at| assert_ne!(light[at], dark[at], "{colors:?}"));
}

#[test]
fn a_report_of_before_becomes_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let page = page_in(dir.path());
    assert!(page.starts_with("<!doctype html>") && page.contains("<h1>drawn</h1>"), "{page}");
    // The same from standard input to standard output.
    let file = std::fs::File::open(dir.path().join("report.json")).unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_valiant"))
        .args(["bench", "report", "-"])
        .stdin(file)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(done.stdout).unwrap(), page);
}

#[test]
fn what_is_no_report_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut newer = report();
    newer["format"] = json!(2);
    newer["version"] = json!("9.0.0");
    for (name, text, wrong) in [
        ("none.json", None, "none.json: No such file"),
        ("text.json", Some("nothing".to_owned()), "text.json: this is no JSON"),
        (
            "other.json",
            Some("{\"a\": 1}".to_owned()),
            "other.json: this is no report of `valiant bench run --json`",
        ),
        ("newer.json", Some(newer.to_string()), "newer.json: a report of form 2 (by Valiant 9.0.0)"),
        ("page.html", Some(report().to_string()), "page.html: the page would take the place of the report"),
    ] {
        if let Some(text) = text {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let done = valiant(dir.path(), &["bench", "report", name]);
        let told = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.code() == Some(1) && told.contains(wrong), "{name}: {told}");
        assert_eq!(dir.path().join(name).with_extension("html").exists(), name == "page.html", "{name}");
    }
}
