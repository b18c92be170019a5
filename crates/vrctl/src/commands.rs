//! Commands that ask a running host.

use crate::args::{HostFileArgs, JsonFile, NamedRouter, TopArgs, UpHost};
use crate::check::Checked;
use crate::file::HostFile;
use crate::run::{read, socket_in};
use crate::socket::{Request, ask};
use crate::view::{add_rates, table, top as table_of_most};
use launch::live::Live;
use launch::logging::LogArgs;
use launch::output::print;
use launch::progress::waiting;
use launch::{Background, Client, Failure};
use runtime::Registry;
use serde_json::Value;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The stretch over which rates are measured.
const STRETCH: Duration = Duration::from_millis(500);

/// How long a router may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks the host of a file. It reads the file itself if it needs more of it than where its socket is.
fn asked(file: &Path, request: &Request) -> Result<Value, Failure> {
    let refused = match ask(&socket_in(&HostFile::directory_of(file)?), request) {
        Ok(value) => return Ok(value),
        Err(refused) => refused,
    };
    if let Request::Apply | Request::Add(_) = request {
        // Its errors are shown with the lines of the file.
        read(file)?;
    }
    Err(refused.into())
}

/// `valiant vr status`.
pub(crate) fn status(args: &JsonFile) -> Result<ExitCode, Failure> {
    let before = asked(&args.file, &Request::Status)?;
    std::thread::sleep(STRETCH);
    let mut now = asked(&args.file, &Request::Status)?;
    add_rates(&before, &mut now);
    print(&if args.json { format!("{now}\n") } else { table(&now) });
    Ok(ExitCode::SUCCESS)
}

/// `valiant vr top`.
pub(crate) fn top(args: &TopArgs) -> Result<ExitCode, Failure> {
    let mut before = asked(&args.file, &Request::Status)?;
    let live = Live::new(args.count != Some(1), args.json);
    let mut left = args.count;
    loop {
        if !live.wait(args.interval) {
            return Ok(ExitCode::SUCCESS);
        }
        let mut now = asked(&args.file, &Request::Status)?;
        let last = std::mem::replace(&mut before, now.clone());
        add_rates(&last, &mut now);
        let lines = if live.clears() { live.lines() } else { usize::MAX };
        let more = live.show(&if args.json { now.to_string() } else { table_of_most(&now, lines) });
        left = left.map(|left| left - 1);
        if !more || left == Some(0) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// `valiant vr up`.
pub(crate) fn up(registry: &Arc<Registry>, args: &UpHost, log: &LogArgs) -> Result<ExitCode, Failure> {
    let checked = waiting(false, "checking the programs", || Checked::new(registry, &args.run.file));
    let Some(host) = checked.good() else { return Ok(checked.show(false)) };
    let socket = socket_in(&host.directory);
    if ask(&socket, &Request::Status).is_ok() {
        print(&format!("{}: already running\n", host.name));
        return Ok(ExitCode::SUCCESS);
    }
    let made = |e: std::io::Error| format!("{}: {}", host.directory.display(), launch::reason(&e));
    std::fs::create_dir_all(&host.directory).map_err(made)?;
    let log_file = host.directory.join("host.log");
    let (words, log) = (args.run.words(), log.words());
    let mut all: Vec<&dyn AsRef<OsStr>> = vec![&"vr"];
    all.extend(log.iter().map(|word| word as &dyn AsRef<OsStr>));
    all.extend([&"run" as &dyn AsRef<OsStr>, &args.run.file]);
    all.extend(words.iter().map(|word| word as &dyn AsRef<OsStr>));
    let started = Background::start(&all, log_file.clone())?;
    let process = started.process();
    let until = Instant::now() + args.patience;
    // It answers when its routers have been started.
    let runs = || ask(&socket, &Request::Status).is_ok();
    waiting(false, "starting the host", || started.wait(until, runs))?;
    let answers = ask(&socket, &Request::Status)?["process"].clone();
    if answers != process {
        // Somebody else has started it at the same time; the process of this command has ended.
        print(&format!("{}: already running, as process {answers}\n", host.name));
        return Ok(ExitCode::SUCCESS);
    }
    print(&format!("{}: started, process {process}; its log is {}\n", host.name, log_file.display()));
    Ok(ExitCode::SUCCESS)
}

/// `valiant vr apply`.
pub(crate) fn apply(args: &JsonFile) -> Result<ExitCode, Failure> {
    let done = asked(&args.file, &Request::Apply)?;
    if args.json {
        print(&format!("{done}\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let names = |key: &str| -> Vec<&str> {
        done[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let mut text = String::new();
    for (key, what) in [
        ("added", "added"),
        ("removed", "removed"),
        ("swapped", "program changed, state kept"),
        ("limited", "share or limits changed"),
        ("access", "access over TCP changed"),
        ("restarted", "started anew"),
    ] {
        for name in names(key) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}: {what}");
        }
    }
    print(if text.is_empty() { "nothing has changed\n" } else { &text });
    Ok(ExitCode::SUCCESS)
}

/// `valiant vr add` and `valiant vr remove`.
pub(crate) fn change(args: &NamedRouter, request: &Request) -> Result<ExitCode, Failure> {
    asked(&args.file, request)?;
    Ok(ExitCode::SUCCESS)
}

/// `valiant vr console`.
pub(crate) fn console(args: &NamedRouter) -> Result<ExitCode, Failure> {
    let status = asked(&args.file, &Request::Status)?;
    let routers = || status["routers"].as_array().into_iter().flatten();
    let Some(router) = routers().find(|router| router["name"] == args.router.as_str()) else {
        let names: Vec<&str> = routers().filter_map(|router| router["name"].as_str()).collect();
        return Err(format!("no virtual router '{}' runs there; {} do", args.router, names.join(", ")).into());
    };
    let Some(socket) = router["socket"].as_str() else {
        return Err(format!("{} is a virtual machine: it has no handlers", args.router).into());
    };
    let client =
        Client::connect_within(socket, PATIENCE).map_err(|e| format!("{socket}: {}", launch::reason(&e)))?;
    Ok(launch::console::run(client, &args.router))
}

/// `valiant vr down`.
pub(crate) fn down(args: &HostFileArgs) -> Result<ExitCode, Failure> {
    asked(&args.file, &Request::Down)?;
    Ok(ExitCode::SUCCESS)
}
