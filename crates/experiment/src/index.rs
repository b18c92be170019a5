//! A page that leads to the pages of several experiments.

use crate::html::{document, table};
use crate::plots::{SIZE, plots};
use crate::reading::Reading;
use chart::{Chart, escaped};
use serde_json::Value;
use std::fmt::Write;

/// A path as an address: what could mean something else there is a percent sign and its number.
fn address(path: &str) -> String {
    path.bytes().fold(String::new(), |text, byte| match byte {
        b'-' | b'.' | b'_' | b'~' | b'/' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
            text + &char::from(byte).to_string()
        }
        other => format!("{text}%{other:02X}"),
    })
}

/// A part of a first page.
#[derive(Clone, Debug)]
pub enum Part {
    /// Paragraphs.
    Words(Vec<String>),
    /// What came of questions: whether they are passed (none: not known), a word for that, what it is about,
    /// and small lines below.
    Verdicts(Vec<(Option<bool>, String, String, Vec<String>)>),
    /// A table: its head and its rows; so many columns are words.
    Table(Vec<String>, Vec<Vec<String>>, usize),
    /// Drawings, each with a caption.
    Charts(Vec<(String, Chart)>),
}

impl Part {
    fn html(&self) -> String {
        match self {
            Self::Words(all) => all.iter().map(|what| format!("<p>{}</p>\n", escaped(what))).collect(),
            Self::Verdicts(all) => {
                let items = all.iter().map(|(passed, word, what, lines)| {
                    let class = match passed {
                        Some(true) => "good",
                        Some(false) => "bad",
                        None => "open",
                    };
                    let lines = lines.iter().map(|line| format!("<br><small>{}</small>", escaped(line)));
                    let (word, what, lines) = (escaped(word), escaped(what), lines.collect::<String>());
                    format!("<li class=\"{class}\"><b>{word}</b>: {what}{lines}</li>\n")
                });
                format!("<ul>\n{}</ul>\n", items.collect::<String>())
            }
            Self::Table(head, rows, words) => table(head, rows, *words),
            Self::Charts(all) => {
                let figures = all.iter().map(|(caption, chart)| {
                    let (caption, svg) = (escaped(caption), chart.inline(SIZE.0, SIZE.1));
                    format!("<figure>\n<figcaption>{caption}</figcaption>\n{svg}</figure>\n")
                });
                format!("<div class=\"plots\">\n{}</div>\n", figures.collect::<String>())
            }
        }
    }
}

/// The page: for each experiment, with the name of its page, what it repeats, what came of it, and its first
/// plot; and what is to be said of others.
///
/// # Errors
/// A message: one is no report, or of another version.
pub fn index(title: &str, reports: &[(String, &Value)], others: &[String]) -> Result<String, String> {
    front(title, &[(String::new(), Part::Words(others.to_vec()))], reports)
}

/// A first page: parts under headings, those without one first, and the same for each experiment below.
///
/// # Errors
/// As above.
pub fn front(title: &str, parts: &[(String, Part)], reports: &[(String, &Value)]) -> Result<String, String> {
    let mut text = format!("<h1>{}</h1>\n", escaped(title));
    for (heading, part) in parts {
        text += &if heading.is_empty() {
            part.html()
        } else {
            format!("<section>\n<h2>{}</h2>\n{}</section>\n", escaped(heading), part.html())
        };
    }
    text += "<div class=\"plots\">\n";
    for (page, report) in reports {
        let reading = Reading::new(report).map_err(|e| format!("{page}: {e}"))?;
        let paper = reading.paper.as_ref().map_or_else(String::new, |paper| {
            format!("<cite>{}</cite>, {}<br>", escaped(&paper.title), escaped(&paper.figure))
        });
        let plot = plots(&reading).0.into_iter().next();
        let plot = plot.map_or_else(String::new, |plot| plot.chart.inline(SIZE.0, SIZE.1));
        let verdicts: String = (reading.expect.iter())
            .map(|verdict| {
                format!(
                    "<li class=\"{}\"><b>{}</b>: {}</li>\n",
                    verdict.class(),
                    verdict.word(),
                    escaped(&verdict.expected)
                )
            })
            .collect();
        let verdicts = if verdicts.is_empty() { verdicts } else { format!("<ul>\n{verdicts}</ul>\n") };
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "<figure>\n<h2><a href=\"{}\">{}</a></h2>\n<figcaption>{paper}</figcaption>\n{plot}{verdicts}</figure>\n",
            address(page),
            escaped(&reading.experiment)
        );
    }
    text += "</div>\n";
    Ok(document(title, &text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_experiment_has_a_link_a_plot_and_its_verdicts() {
        let row = |size: &str| json!({"point": {"size": size}, "pps": {"median": 1.0, "least": 1.0, "most": 1.0}, "rounds": [{"pps": 1.0}]});
        let report = json!({"experiment": "a<b", "version": "1", "results": [row("60"), row("100")],
            "paper": {"title": "P", "figure": "Figure 8", "source": "", "unit": "", "x": "", "values": []},
            "expect": [{"expected": "it rises", "why": "", "holds": false, "seen": []}]});
        let pages = [("a.html".to_owned(), &report), ("50%: 1#2.html".to_owned(), &report)];
        let page = index("All", &pages, &["c: <wrong>".to_owned()]).unwrap();
        assert!(
            page.contains("<p>c: &lt;wrong&gt;</p>") && page.contains("<a href=\"50%25%3A%201%232.html\">"),
            "{page}"
        );
        assert_eq!(
            (page.matches("<svg ").count(), page.matches("<a href=\"a.html\">a&lt;b</a>").count()),
            (2, 1),
            "{page}"
        );
        assert!(
            page.contains("<cite>P</cite>, Figure 8") && page.contains("class=\"bad\"><b>does not hold"),
            "{page}"
        );
        assert!(index("All", &[("a.html".to_owned(), &json!({}))], &[]).unwrap_err().starts_with("a.html: "));
    }
}
