//! HTML: tables, and a page that needs nothing beside it.

use chart::escaped;

const STYLE: &str = include_str!("page.css");

/// Cells of a table's row; the first are words.
fn row(cells: &[String], words: usize, tag: &str) -> String {
    let cell = |(at, cell): (usize, &String)| {
        let class = if at < words { " class=\"word\"" } else { "" };
        format!("<{tag}{class}>{}</{tag}>", escaped(cell))
    };
    format!("<tr>{}</tr>\n", cells.iter().enumerate().map(cell).collect::<String>())
}

/// A table that scrolls where it is too wide.
pub(crate) fn table(head: &[String], rows: &[Vec<String>], words: usize) -> String {
    let body: String = rows.iter().map(|cells| row(cells, words, "td")).collect();
    format!(
        "<div class=\"wide\"><table>\n<thead>{}</thead>\n<tbody>\n{body}</tbody></table></div>\n",
        row(head, words, "th")
    )
}

/// Words as cells.
pub(crate) fn strings(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// A page with this content.
pub(crate) fn document(title: &str, content: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>\n{STYLE}{}</style>\n</head>\n<body>\n<main>\n{content}</main>\n</body>\n</html>\n",
        escaped(title),
        chart::STYLE,
    )
}
