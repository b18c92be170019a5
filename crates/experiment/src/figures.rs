//! What an experiment file says of the figures that a command prints.

use crate::model::{Device, Figure};
use crate::reader::Reader;
use lang::Span;
use launch::settings::in_order;
use std::collections::BTreeMap;
use toml::Spanned;

/// `[figures]` as written: names, and ways to them.
pub(crate) type RawFigures = BTreeMap<Spanned<String>, Spanned<String>>;

/// Whether a figure may have this name.
fn is_name(name: &str) -> bool {
    let good = |c: char| c.is_alphanumeric() || " -_/%$.".contains(c);
    !name.trim().is_empty() && name.len() <= 48 && name.chars().all(good)
}

impl Reader<'_> {
    /// The figures, in the order of the file; `others` are tables and keys of the file that have no meaning
    /// beside them, with their places.
    pub(crate) fn figures(
        &mut self,
        raw: &RawFigures,
        device: &Device,
        others: &[Option<(&str, Span)>],
    ) -> Vec<Figure> {
        let Some((first, _)) = in_order(raw).first().copied() else { return Vec::new() };
        let mut figures = Vec::new();
        for (name, path) in in_order(raw) {
            if !is_name(name.get_ref()) {
                let help = "up to 48 letters, digits, spaces and any of - _ / % $ .";
                self.wrong(name, format!("'{}' is no name for a figure", name.get_ref()), help);
            }
            let steps: Vec<String> = path.get_ref().split('.').map(str::to_owned).collect();
            if steps.iter().any(String::is_empty) {
                let help = "keys of the JSON with dots between them, such as \"results.0.pps\"";
                self.wrong(path, format!("'{}' is no way to a figure", path.get_ref()), help);
            }
            figures.push(Figure { name: name.get_ref().clone(), path: steps });
        }
        if !matches!(device, Device::Command(_)) {
            let help = "command = \"...\" in [device]: what prints JSON with these figures";
            self.wrong(first, "figures are for a device with a command".to_owned(), help);
        }
        for (name, place) in others.iter().flatten() {
            let help = "a command whose figures are read runs on this host until it ends, and no traffic is sent to it";
            self.diags.error_with_help(*place, format!("there is {name} beside [figures]"), help);
        }
        figures
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{Experiment, Measure};

    fn read(text: &str) -> Result<Experiment, Vec<String>> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("e.toml");
        std::fs::write(&file, text).unwrap();
        Experiment::load(&file).map_err(|diags| diags.iter().map(|d| d.message.clone()).collect())
    }

    #[test]
    fn errors_have_places() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("e.toml");
        let others = "[traffic]\nto = \"a\"\n[measure]\nlast = 1\n[calibrate]\nto = \"a\"\nsink = \"b\"\n";
        for text in [
            format!("{others}[device]\ncommand = \"x\"\n[figures]\na = \"a\"\n"),
            "[figures]\na = \"a\"\n".to_owned(),
            "[traffic]\nsize = 60\n".to_owned(),
        ] {
            std::fs::write(&file, &text).unwrap();
            for error in Experiment::load(&file).unwrap_err().iter() {
                assert!(error.span.is_some(), "{text}: {error:?}");
            }
        }
    }

    #[test]
    fn a_command_has_figures_in_place_of_traffic() {
        let head = "[device]\ncommand = \"x\"\n[figures]\nloss = \"loss\"\n\"c of all\" = \"nodes.0.c\"\n[vary]\n\"$N\" = [1, 2]\n";
        let paper = "[paper]\ntitle = \"P\"\nfigure = \"F\"\nx = \"$N\"\nvalues = [{x = 1, y = 2, section = \"1\", figure = \"c of all\"}]\n";
        let e = read(&format!("{head}{paper}[[expect]]\nrises = \"$N\"\nof = \"loss\"\n")).unwrap();
        assert_eq!(e.measure, Measure::Figures);
        let paths: Vec<String> =
            e.figures.iter().map(|one| format!("{}={}", one.name, one.path.join("/"))).collect();
        assert_eq!(paths, ["loss=loss", "c of all=nodes/0/c"]);
        assert_eq!(e.paper.unwrap().values[0].figure.as_deref(), Some("c of all"));
        for (rest, error) in [
            ("[traffic]\nto = \"a\"\n", "there is [traffic] beside [figures]"),
            ("[measure]\nlast = 1\n", "there is [measure] beside [figures]"),
            ("[calibrate]\nto = \"a\"\nsink = \"b\"\n", "there is [calibrate] beside [figures]"),
            ("[generator]\nthreads = 2\n", "threads is for a generator"),
            ("[[expect]]\nrises = \"$N\"\n", "of which figure?"),
            ("[[expect]]\nrises = \"$N\"\nof = \"pps\"\n", "'pps' is no figure of the command"),
            (&paper.replace("c of all", "d"), "the value is of no figure of a command"),
            (
                &paper.replace("x = \"$N\"", "x = \"$N\"\nunit = \"us\""),
                "the values of figures have no unit here",
            ),
        ] {
            let errors = read(&format!("{head}{rest}")).unwrap_err();
            assert!(errors.iter().any(|one| one.contains(error)), "{error}: {errors:#?}");
        }
        let on_host = "[device]\ncommand = \"x\"\nhost = \"h\"\nready = 3\n[figures]\na = \"a\"\n";
        let errors = read(on_host).unwrap_err();
        assert_eq!(errors, ["there is host beside [figures]", "there is ready beside [figures]"]);
        let errors = read("[figures]\n\"\" = \"a\"\nb = \"a..b\"\n").unwrap_err();
        for error in ["'' is no name", "'a..b' is no way", "for a device with a command"] {
            assert!(errors.iter().any(|one| one.contains(error)), "{error}: {errors:#?}");
        }
    }
}
