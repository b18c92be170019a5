//! Tables and medians, for reports.

/// A quantile of values, between the two nearest.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = share * (sorted.len().saturating_sub(1)) as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    match (sorted.get(below), sorted.get(above)) {
        (Some(low), Some(high)) => low + (high - low) * (at - at.floor()),
        _ => f64::NAN,
    }
}

/// Columns of a table, as wide as they must be; the first `left` are words.
pub(crate) fn table(rows: &[Vec<String>], left: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    rows.iter().fold(String::new(), |text, row| {
        let cells: Vec<String> = (row.iter().zip(&widths).enumerate())
            .map(
                |(at, (cell, width))| {
                    if at < left { format!("{cell:width$}") } else { format!("{cell:>width$}") }
                },
            )
            .collect();
        text + cells.join("  ").trim_end() + "\n"
    })
}

/// A cell of a line of CSV.
pub(crate) fn csv_cell(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
