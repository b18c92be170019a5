//! `valiant nic measure`: one measurement of `valiant nic bench`, which starts it for each.

use clap::{Args, ValueEnum};
use launch::logging::error;
use launch::output::print;
use launch::{StopSignals, cpu_list};
use nicbench::engine::{Engine, Refusal};
use nicbench::forward::Forward;
use nicbench::hardware::{Generator, Hardware, open_port};
use nicbench::kinds::{Kind, default_rule, frames};
use nicbench::measured::{Bench, Cores, Strategy, Where, insertion, replacement_alone};
use nicbench::software::Software;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

pub(super) const EXAMPLES: &str = "\
`valiant nic bench` starts it for each point, and experiment files can: see [figures] in doc/experiments.md. It prints figures as JSON.

Examples:
  valiant nic measure lookup --rules 65536              the classifier in software
  valiant nic measure insert --kind ipv6-tcp --port 0000:03:00.0
  valiant nic measure batch --changes 100000 --where same --table 1

Exit status: 0 measured, 1 it could not be, 2 wrong usage.";

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Which device a port has, and which kinds of rules it takes.
    About,
    /// Packets a second, and how long they take, with rules in tables.
    Lookup,
    /// How fast rules come and go.
    Insert,
    /// Rules that come at once while packets flow.
    Batch,
    /// Rules that come and go at a rate while packets flow.
    Churn,
    /// Rules that are replaced while packets match them.
    Replace,
}

#[derive(Clone, Copy, ValueEnum)]
enum Place {
    /// On the forwarder's, between two bursts.
    Same,
    /// On another one.
    Other,
}

#[derive(Clone, Copy, ValueEnum)]
enum How {
    DeleteInsert,
    InsertDelete,
    Change,
    InPlace,
}

#[derive(Args)]
pub(super) struct MeasureArgs {
    /// What is measured.
    what: What,
    /// The port whose device has the rules; without, the classifier in software has them.
    #[arg(long)]
    port: Option<String>,
    /// A port that sends the traffic, which has to reach the other one; without, it comes from elsewhere.
    #[arg(long, requires = "port")]
    from: Option<String>,
    /// What rules match on, such as ipv4-tcp.
    #[arg(long, default_value = "ipv4-tcp")]
    kind: String,
    /// How many rules there are.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=16_000_000))]
    rules: u32,
    /// The first table with rules; those before it only lead there.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=64))]
    table: u32,
    /// Over how many tables the rules are spread, one after the other.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    tables: u32,
    /// Flows of the traffic.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=16_000_000))]
    flows: u32,
    /// The part of the flows that match a rule, from 0 to 1; the others come to the default rule.
    #[arg(long, default_value_t = 0.0)]
    share: f64,
    /// How many rules come at once, or how many changes are made a second: one that goes and one that comes
    /// are two.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=16_000_000))]
    changes: u32,
    /// On which core rules are changed.
    #[arg(long = "where", value_enum, default_value = "other")]
    place: Place,
    /// How a rule takes the place of another.
    #[arg(long, value_enum, default_value = "change")]
    how: How,
    /// How long traffic flows; how long rules are put in at most.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// The processors of the forwarder and of the rule generator [default: two of those that it may use].
    #[arg(long, value_name = "LIST")]
    cores: Option<String>,
    /// Keep what is printed in a file too.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

/// The processors of the roles.
fn cores(args: &MeasureArgs) -> Result<Cores, String> {
    let wanted = args.cores.as_deref().map(cpu_list).transpose()?;
    let all = wanted.unwrap_or_else(|| {
        dpdk::Topology::here().cores().iter().filter(|core| core.allowed).map(|core| core.id).collect()
    });
    Ok(Cores { forwarder: all.first().copied(), rules: all.get(1).or(all.first()).copied() })
}

/// The rules of the tables, in the order in which they come, and the number of tables.
fn tables(kind: Kind, args: &MeasureArgs) -> Result<Vec<::rules::Rule>, String> {
    let (first, many) = (args.table, args.tables);
    let last = first + many - 1;
    let mut all = Vec::new();
    let each = args.rules as usize / many as usize;
    let mut done = 0_u64;
    for table in 0..=last {
        if table >= first {
            // The first tables have what does not divide evenly.
            let more = usize::from(((table - first) as usize) < args.rules as usize % many as usize);
            all.extend(kind.rules(done, each + more, table, 1)?);
            done += (each + more) as u64;
        }
        all.push(default_rule(table, (table < last).then_some(table + 1))?);
    }
    Ok(all)
}

/// Runs a measurement with an engine.
fn with<E: Engine>(
    engine: &E,
    traffic: &mut dyn Forward,
    args: &MeasureArgs,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Value, String> {
    let kind = Kind::named(&args.kind)?;
    let made =
        |rules: Vec<::rules::Rule>| rules.into_iter().map(|rule| engine.make(rule)).collect::<Vec<_>>();
    let time = Duration::try_from_secs_f64(args.seconds).map_err(|e| format!("--seconds: {e}"))?;
    let rules = args.rules as usize;
    let mut bench = Bench { engine, traffic, cores: cores(args)?, time, stop };
    let place = match args.place {
        Place::Same => Where::Same,
        Place::Other => Where::Other,
    };
    let how = match args.how {
        How::DeleteInsert => Strategy::DeleteInsert,
        How::InsertDelete => Strategy::InsertDelete,
        How::Change => Strategy::Change,
        How::InPlace => Strategy::InPlace,
    };
    // A device may take long: what is there when it is to stop is removed at the end.
    let fill = |rules: &[E::Rule]| {
        let mut numbers = Vec::with_capacity(rules.len());
        for some in rules.chunks(4096) {
            if stop() {
                return Err("interrupted".to_owned());
            }
            let before = numbers.len();
            let refused =
                |refused: Refusal| format!("after {} rules: {}", before + refused.taken.len(), refused.words);
            numbers.extend(engine.add_together(some).map_err(refused)?);
        }
        Ok(numbers)
    };
    let lead =
        |table: u32| (0..table).map(|from| default_rule(from, Some(from + 1))).collect::<Result<Vec<_>, _>>();
    match args.what {
        What::About => Ok(json!({})),
        What::Insert => {
            fill(&made(lead(args.table)?))?;
            insertion(engine, &made(kind.rules(0, rules, args.table, 1)?), time, stop)
        }
        What::Lookup => {
            // A device that takes some of the rules is measured with those.
            let taken = match engine.add_together(&made(tables(kind, args)?)) {
                Ok(_) => None,
                Err(refused) if refused.taken.is_empty() => return Err(refused.words),
                Err(refused) => Some(refused.taken.len()),
            };
            let mut figures = bench.lookup();
            figures["full"] = taken.is_some().into();
            Ok(figures)
        }
        What::Batch => {
            fill(&made(tables(kind, args)?))?;
            bench.batch(&made(kind.rules(args.rules.into(), args.changes as usize, args.table, 1)?), place)
        }
        What::Churn => {
            fill(&made(tables(kind, args)?))?;
            let more = made(kind.rules(args.rules.into(), rules, args.table, 1)?);
            let mut numbers = fill(&more)?;
            bench.churn(&mut numbers, &more, args.changes.into(), place)
        }
        What::Replace => {
            fill(&made(lead(args.table)?))?;
            let [first, second] = [1, 2].map(|queue| kind.rules(0, rules, args.table, queue).map(made));
            let (first, second) = (first?, second?);
            let mut numbers = fill(&first)?;
            fill(&made(vec![default_rule(args.table, None)?]))?;
            if args.port.is_some() && args.from.is_none() {
                return replacement_alone(engine, &mut numbers, &second, how, time, stop);
            }
            bench.replacement(&mut numbers, [&first, &second], how)
        }
    }
}

/// Rules of a port's device.
fn hardware(name: &str, args: &MeasureArgs, stop: &(dyn Fn() -> bool + Sync)) -> Result<Value, String> {
    let port = open_port(name, 3)?;
    let mut sender = None;
    if let Some(from) = &args.from {
        let port = if from == name { std::sync::Arc::clone(&port) } else { open_port(from, 1)? };
        let frames = frames(args.flows as usize, args.share, args.rules as usize);
        sender = Some(Generator::new(&port, frames)?);
    }
    let engine = Hardware::of(&port)?;
    let mut traffic = engine.traffic()?;
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if let Some(mut sender) = sender {
            let ended = &ended;
            scope.spawn(move || {
                while !ended.load(Relaxed) {
                    sender.burst();
                }
            });
        }
        let figures = match args.what {
            What::About => Ok(engine.about(traffic.receives())),
            _ => with(&engine, &mut traffic, args, stop),
        };
        ended.store(true, Relaxed);
        figures
    })
}

/// `valiant nic measure`.
pub(super) fn measure(args: &MeasureArgs) -> ExitCode {
    let signals = StopSignals::watch();
    let stop = || signals.wanted();
    let figures = match &args.port {
        Some(port) => hardware(port, args, &stop),
        None => {
            let engine = Software::new(u64::from(std::process::id()) << 32 | 0x5eed);
            let mut traffic = engine.traffic(frames(args.flows as usize, args.share, args.rules as usize));
            with(&engine, &mut traffic, args, &stop)
        }
    };
    let figures = figures.and_then(|figures| {
        let text = format!("{figures:#}\n");
        let saved = args.save.as_ref().map_or(Ok(()), |path| {
            std::fs::write(path, &text).map_err(|e| format!("{}: {}", path.display(), launch::reason(&e)))
        });
        saved.map(|()| text)
    });
    match figures {
        Ok(text) => {
            print(&text);
            ExitCode::SUCCESS
        }
        Err(message) => {
            error(&format!("error: {message}"));
            ExitCode::FAILURE
        }
    }
}
