//! What an experiment file says of the device under test.

use crate::model::{Device, Host, Settings};
use crate::reader::Reader;
use crate::start::{is_below, name_there};
use crate::values::word;
use crate::varied::DEVICE;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::{Spanned, Value};

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawDevice {
    program: Option<Spanned<String>>,
    command: Option<Spanned<String>>,
    pub(crate) host: Option<Spanned<Value>>,
    valiant: Option<Spanned<String>>,
    files: Option<Spanned<Value>>,
    pub(crate) ready: Option<Spanned<Value>>,
    #[serde(default)]
    variables: BTreeMap<Spanned<String>, Spanned<Value>>,
    threads: Option<Spanned<Value>>,
    cpus: Option<Spanned<Value>>,
    burst: Option<Spanned<Value>>,
    memory: Option<Spanned<Value>>,
    placement: Option<Spanned<Value>>,
    #[serde(rename = "when-idle")]
    when_idle: Option<Spanned<Value>>,
}

impl Reader<'_> {
    /// The device. What is set for it is added to what is held.
    pub(crate) fn device(&mut self, raw: &RawDevice, held: &mut Settings) -> Device {
        let device = match (&raw.program, &raw.command) {
            (Some(program), Some(_)) => {
                let help = "a program runs by `valiant run`, a command by the shell";
                self.wrong(program, "the device has a program and a command".to_owned(), help);
                return Device::Between;
            }
            (Some(program), None) => {
                let path = self.dir.join(program.get_ref());
                if !path.is_file() {
                    let help = "paths start at the directory of the experiment file";
                    self.wrong(program, format!("there is no file {}", path.display()), help);
                }
                Device::Program(path)
            }
            (None, Some(command)) => Device::Command(command.get_ref().clone()),
            (None, None) => Device::Between,
        };
        let options = [&raw.threads, &raw.cpus, &raw.burst, &raw.memory, &raw.placement, &raw.when_idle];
        for (key, value) in DEVICE.iter().zip(options) {
            let Some(value) = value else { continue };
            if !matches!(device, Device::Program(_)) {
                let help = "with `program`, the device is a program of Valiant's";
                self.wrong(value, format!("{key} is for a device with a program"), help);
            }
            held.extend(
                self.value(key, Some(value), word, "a word or a number").map(|v| ((*key).to_owned(), v)),
            );
        }
        for (name, value) in &raw.variables {
            if device == Device::Between {
                let help = "the device is what is between the ports: it has no variables";
                self.wrong(name, format!("the variable {} is nobody's", name.get_ref()), help);
            }
            let value = self.value(name.get_ref(), Some(value), word, "a word or a number");
            held.extend(value.map(|value| (format!("${}", name.get_ref()), value)));
        }
        device
    }

    /// The host of the device, if that is not this one.
    pub(crate) fn host(&mut self, raw: &RawDevice, device: &Device) -> Option<Host> {
        let Some(given) = &raw.host else {
            let help = "`host` in [device] is a command that reaches the other host";
            if let Some(valiant) = &raw.valiant {
                self.wrong(valiant, "valiant is for a device on another host".to_owned(), help);
            }
            if let Some(files) = &raw.files {
                self.wrong(files, "files are for a device on another host".to_owned(), help);
            }
            return None;
        };
        let command = self.words("host", given);
        if let [one] = command.as_slice()
            && one.contains(char::is_whitespace)
        {
            let words = one.split_whitespace().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ");
            self.wrong(given, format!("host = {one:?} is one word"), &format!("host = [{words}]"));
        }
        if *device == Device::Between {
            let help = "`program` or `command` in [device] says what runs there; without them nothing does";
            self.wrong(given, "host is for a device with a program or a command".to_owned(), help);
        }
        let files = raw.files.as_ref().map(|files| (files, self.words("files", files)));
        for (place, name) in
            files.iter().flat_map(|(place, names)| names.iter().map(move |name| (*place, name)))
        {
            if !is_below(name.as_ref()) {
                let help =
                    "their paths start at the directory of the experiment file, and are the same there";
                self.wrong(place, format!("{name} is not below this directory"), help);
            } else if !self.dir.join(name).is_file() {
                let help = "paths start at the directory of the experiment file; directories cannot be sent";
                self.wrong(place, format!("there is no file {}", self.dir.join(name).display()), help);
            }
        }
        if let Some(empty) = raw.valiant.as_ref().filter(|path| path.get_ref().trim().is_empty()) {
            let help = "the path of Valiant's program on the other host; without it, `valiant`";
            self.wrong(empty, format!("valiant = {:?} is no path", empty.get_ref()), help);
        }
        let valiant = raw.valiant.as_ref().map_or("valiant", |path| path.get_ref());
        let files = files.map(|(_, names)| names).unwrap_or_default();
        Some(Host { command, valiant: valiant.to_owned(), files })
    }

    /// Reports programs that would have the name of another file on the device's host: a program that is
    /// elsewhere is there by its last name.
    pub(crate) fn have_own_names(&mut self, raw: &RawDevice, host: &Host, programs: &[PathBuf]) {
        let Some(place) = &raw.files else { return };
        let all = programs.iter().flat_map(|program| host.files.iter().map(move |file| (program, file)));
        for (program, file) in all {
            let (path, name) = (self.dir.join(file), name_there(self.dir, program));
            let same = |a: &Path, b: &Path| a.canonicalize().ok() == b.canonicalize().ok();
            if name == name_there(self.dir, &path) && !same(program, &path) {
                let shown = program.strip_prefix(self.dir).unwrap_or(program).display();
                let message = format!("{shown} and {file} have the same name there, {}", name.display());
                let help = "a program that is not below the directory of the experiment file is there by its last name";
                self.wrong(place, message, help);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{Experiment, Host};

    fn read(device: &str) -> Result<Experiment, Vec<String>> {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.click", "table"] {
            std::fs::write(dir.path().join(name), "text").unwrap();
        }
        let path = dir.path().join("e.toml");
        std::fs::write(&path, format!("[traffic]\nto = \"a\"\nsink = \"b\"\n[device]\n{device}")).unwrap();
        Experiment::load(&path).map_err(|all| all.iter().map(|one| one.message.clone()).collect())
    }

    #[test]
    fn a_device_may_be_on_another_host() {
        let host = |device: &str| read(device).unwrap().host.unwrap();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let plain =
            Host { command: words(&["ssh", "dut"]), valiant: "valiant".to_owned(), files: Vec::new() };
        assert_eq!(host("program = \"a.click\"\nhost = [\"ssh\", \"dut\"]\n"), plain);
        let with =
            "command = \"x\"\nhost = \"./reach\"\nvaliant = \"/v\"\nfiles = [\"table\", \"a.click\"]\n";
        let (valiant, files) = ("/v".to_owned(), words(&["table", "a.click"]));
        assert_eq!(host(with), Host { command: words(&["./reach"]), valiant, files });
        assert_eq!(read("program = \"a.click\"\n").unwrap().host, None);
    }

    #[test]
    fn files_on_another_host_have_different_names() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("d");
        std::fs::create_dir(&below).unwrap();
        for name in ["r.click", "d/r.click", "d/s.click"] {
            std::fs::write(dir.path().join(name), name).unwrap();
        }
        let read = |device: &str, rest: &str| {
            let text = format!("[traffic]\nto = \"a\"\nsink = \"b\"\n[device]\nhost = \"h\"\n{device}{rest}");
            std::fs::write(below.join("e.toml"), text).unwrap();
            let read = Experiment::load(&below.join("e.toml"));
            read.map_err(|all| {
                all.iter().map(|one| (one.message.clone(), one.span.is_some())).collect::<Vec<_>>()
            })
        };
        let files = "files = [\"s.click\", \"r.click\"]\n";
        let error = [("../r.click and r.click have the same name there, r.click".to_owned(), true)];
        assert_eq!(read("program = \"../r.click\"\n", files).unwrap_err(), error);
        let varied = format!("{files}[vary]\nprogram = [\"s.click\", \"../r.click\"]\n");
        assert_eq!(read("program = \"s.click\"\n", &varied).unwrap_err(), error);
        // The same file, once more.
        for program in ["r.click", "./r.click", "../d/r.click"] {
            read(&format!("program = \"{program}\"\n"), files).unwrap();
        }
        read("command = \"x\"\n", files).unwrap();
    }

    #[test]
    fn what_a_host_needs_is_looked_for_at_once() {
        let errors =
            read("host = \"ssh dut\"\nfiles = [\"../a.click\", \"none\", \"/table\"]\n").unwrap_err();
        for part in [
            "\"ssh dut\" is one word",
            "with a program or a command",
            "../a.click is not below",
            "there is no file ",
            "/table is not below",
        ] {
            assert!(errors.iter().any(|error| error.contains(part)), "{part}: {errors:#?}");
        }
        assert_eq!(errors.len(), 5, "{errors:#?}");
        let errors =
            read("program = \"a.click\"\nhost = \"h\"\nvaliant = \"\"\nfiles = \"./table\"\n").unwrap_err();
        assert_eq!(errors, ["valiant = \"\" is no path"]);
        let errors = read("program = \"a.click\"\nvaliant = \"v\"\nfiles = \"table\"\n").unwrap_err();
        assert_eq!(errors.len(), 2, "{errors:#?}");
        assert_eq!(read("command = \"x\"\nhost = []\n").unwrap_err(), ["host has no value that can be used"]);
    }
}
