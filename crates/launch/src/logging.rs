//! What a running router logs, and how: `--log` and `--log-format`.
//!
//! Messages go to standard error. As text they are what Click and Valiant have always written there; as JSON,
//! each is an object on a line of its own, with time, level, target and message.

use crate::limit::{Limit, PER_SECOND};
use crate::progress;
use crate::relay::{Entry, Relay};
use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, Args, Command, ValueEnum};
use dpdk::{LogLevel, LogLine};
use std::ffi::OsStr;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_log::NormalizeEvent;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// The targets of Valiant's own messages: a level without a target is for all of these.
const TARGETS: [&str; 10] =
    ["router", "element", "ports", CONFIGURATION, COMMAND, "cluster", "vr", "etcd", "traffic", LOG];
/// The target of what a node that follows etcd reports, a part of `etcd`.
const AGENT: &str = "etcd::agent";
/// The target of errors of configurations, and of the message that a command has failed. Errors of both are
/// printed whatever the filter is.
const CONFIGURATION: &str = "configuration";
const COMMAND: &str = "command";
/// The target of messages about the log: messages that were left out, targets that do not exist.
const LOG: &str = "log";
/// DPDK's messages; its log type follows, as in `dpdk::lib.eal`.
const DPDK: &str = "dpdk";

/// The environment variables for the options.
const FILTER: &str = "VALIANT_LOG";
const FORMAT: &str = "VALIANT_LOG_FORMAT";

/// How many lines of DPDK's log may wait to be printed,
const DPDK_LINES: usize = 16_384;
/// and for how long at the end.
const PATIENCE: Duration = Duration::from_secs(3);

/// What is logged and how.
#[derive(Args, Clone, Debug, Default)]
pub struct LogArgs {
    /// What to log on standard error: a level (`off`, `error`, `warn`, `info`, `debug`, `trace`) for all of
    /// Valiant's messages, or TARGET=LEVEL, or several of these, as in
    /// `warn,element=off,dpdk=debug`. Targets are `router`, `element`, `ports`, `configuration`, `command`,
    /// `cluster`, `vr`, `etcd`, `traffic`, `log`, and `dpdk` for DPDK's own log, which is off by default;
    /// `dpdk::pmd.net` is a part of it. Errors of configurations are always printed [default: info].
    #[arg(long = "log", value_name = "FILTER", env = FILTER, hide_env_values = true, value_parser = Filter, global = true)]
    filter: Option<String>,
    /// How to log: lines of text, or a JSON object on each line, with errors of configurations too.
    #[arg(
        long = "log-format",
        value_name = "FORMAT",
        env = FORMAT,
        hide_env_values = true,
        default_value = "text",
        value_parser = Format,
        global = true
    )]
    format: LogFormat,
}

impl LogArgs {
    /// The same, as arguments.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = self.filter.iter().map(|filter| format!("--log={filter}")).collect();
        if self.format == LogFormat::Json {
            words.push("--log-format=json".to_owned());
        }
        words
    }
}

/// The format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    #[default]
    Text,
    Json,
    /// Of a variable that is set to nothing: the default.
    #[value(name = "", hide = true)]
    Unset,
}

/// Reads a filter. A target that does not exist is an error on the command line. In the environment, which
/// may be that of several versions of Valiant, it is a warning; see [`start`].
#[derive(Clone)]
struct Filter;

impl TypedValueParser for Filter {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        self.parse_ref_(command, arg, value, ValueSource::CommandLine)
    }
    fn parse_ref_(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
        source: ValueSource,
    ) -> Result<String, clap::Error> {
        if source == ValueSource::EnvVariable {
            let text = value.to_str().ok_or_else(|| "not UTF-8".to_owned());
            return text.and_then(|text| checked(text, false)).map_err(|e| of_variable(command, FILTER, &e));
        }
        let read = move |text: &str| checked(text, true);
        read.parse_ref(command, arg, value)
    }
}

/// Reads a format. What is wrong in the environment is reported under the name of the variable.
#[derive(Clone)]
struct Format;

impl TypedValueParser for Format {
    type Value = LogFormat;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<LogFormat, clap::Error> {
        self.parse_ref_(command, arg, value, ValueSource::CommandLine)
    }
    fn parse_ref_(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
        source: ValueSource,
    ) -> Result<LogFormat, clap::Error> {
        let read = EnumValueParser::<LogFormat>::new().parse_ref(command, arg, value);
        if source != ValueSource::EnvVariable {
            return read;
        }
        read.map_err(|_| {
            let message = format!("'{}' is neither text nor json", value.to_string_lossy());
            of_variable(command, FORMAT, &message)
        })
    }
    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(LogFormat::value_variants().iter().filter_map(LogFormat::to_possible_value)))
    }
}

/// An error in an environment variable, not in the option that it stands for.
fn of_variable(command: &Command, name: &str, message: &str) -> clap::Error {
    command.clone().error(ErrorKind::ValueValidation, format!("environment variable {name}: {message}"))
}

/// The text of a filter, if it is valid; with `known`, if all of its targets exist too.
fn checked(text: &str, known: bool) -> Result<String, String> {
    let (_, named) = directives(text)?;
    match unknown(&named).next().filter(|_| known) {
        Some(message) => Err(message),
        None => Ok(text.to_owned()),
    }
}

/// An error message for each target that does not exist.
fn unknown(named: &[(&str, LevelFilter)]) -> impl Iterator<Item = String> {
    let exists = |target: &str| {
        let log_type = target.strip_prefix(DPDK).and_then(|rest| rest.strip_prefix("::"));
        TARGETS.contains(&target)
            || [AGENT, DPDK].contains(&target)
            || log_type.is_some_and(|name| !name.is_empty())
    };
    named.iter().map(|(target, _)| *target).filter(move |target| !exists(target)).map(|target| {
        let near = lang::nearest(target, TARGETS.into_iter().chain([DPDK]));
        let hint = near.map_or_else(String::new, |near| format!(" (did you mean '{near}'?)"));
        let all = TARGETS.join(", ");
        format!("unknown target '{target}'{hint}; targets are {all}, {DPDK} and {DPDK}::TYPE")
    })
}

/// The level for all of Valiant's targets, and the levels for targets that are named.
type Directives<'a> = (LevelFilter, Vec<(&'a str, LevelFilter)>);

fn directives(text: &str) -> Result<Directives<'_>, String> {
    let (mut all, mut named) = (LevelFilter::INFO, Vec::new());
    // An empty text, as of a variable that is set to nothing, is the default.
    let text = text.trim();
    for directive in text.split(',').map(str::trim).filter(|_| !text.is_empty()) {
        let (target, level) = match directive.split_once('=') {
            Some((target, level)) => (Some(target.trim()), level.trim()),
            None => (None, directive),
        };
        let known = ["off", "error", "warn", "info", "debug", "trace"].contains(&level);
        let level = known.then(|| level.parse().ok()).flatten();
        let level = level.ok_or_else(|| {
            format!("'{directive}' is not a level, such as warn, nor TARGET=LEVEL, such as dpdk=debug")
        })?;
        match target {
            Some(target) => named.push((target, level)),
            None => all = level,
        }
    }
    Ok((all, named))
}

/// Whether messages are JSON.
static JSON: OnceLock<bool> = OnceLock::new();
/// The options, for processes that this one starts.
static OPTIONS: OnceLock<LogArgs> = OnceLock::new();

pub(crate) fn is_json() -> bool {
    JSON.get().is_some_and(|json| *json)
}

/// The environment variables that make a process which this one starts log in the same way.
#[must_use]
pub fn environment() -> Vec<(&'static str, String)> {
    let Some(options) = OPTIONS.get() else { return Vec::new() };
    let filter = options.filter.iter().map(|filter| (FILTER, filter.clone()));
    let json = options.format == LogFormat::Json;
    filter.chain(json.then(|| (FORMAT, "json".to_owned()))).collect()
}

/// Reports that the command has failed, and why. As text, this message is printed whatever the filter is.
pub fn error(message: &str) {
    if is_json() {
        let message = message.strip_prefix("error: ").unwrap_or(message);
        tracing::error!(target: COMMAND, "{message}");
    } else {
        progress::aside(|| print(&format!("{message}\n")));
    }
}

/// Writes to standard error. If that is gone, as a pipe whose reader has ended, the text is lost.
pub(crate) fn print(text: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
}

/// The levels of DPDK's log types, where the filter requires more than their default.
pub(crate) fn dpdk_levels() -> Vec<(String, LogLevel)> {
    let filter = OPTIONS.get().and_then(|options| options.filter.as_deref()).unwrap_or_default();
    let Ok((_, named)) = directives(filter) else { return Vec::new() };
    let more = named.into_iter().filter_map(|(target, level)| {
        let level = match level.into_level()? {
            Level::INFO => LogLevel::Info,
            Level::DEBUG | Level::TRACE => LogLevel::Debug,
            _ => return None,
        };
        let log_types = match target.strip_prefix(DPDK)? {
            "" => "*".to_owned(),
            part => format!("{}*", part.strip_prefix("::")?),
        };
        Some((log_types, level))
    });
    more.collect()
}

/// Begins to log. With `limited`, the number of messages of one kind is limited, because messages that an
/// attacker's packets cause must not fill a disk.
#[must_use]
pub fn start(options: &LogArgs, limited: bool) -> Logging {
    let filter = options.filter.as_deref().unwrap_or("info");
    // The filter has been checked.
    let (all, named) = directives(filter).unwrap_or((LevelFilter::INFO, Vec::new()));
    if named.iter().any(|(target, level)| target.starts_with(DPDK) && *level != LevelFilter::OFF) {
        // Without a thread, lines are printed by those who log.
        if let Ok(relay) = Relay::start("dpdk-log", DPDK_LINES, print_dpdk) {
            let _ = DPDK_LOG.set(relay);
        }
        dpdk::set_log_sink(Some(log_dpdk));
    }
    let targets = Targets::new()
        .with_targets(TARGETS.map(|target| (target, all)))
        .with_targets(named.iter().copied())
        .with_targets([CONFIGURATION, COMMAND].map(|target| {
            let wanted =
                named.iter().rev().find(|(name, _)| *name == target).map_or(all, |(_, level)| *level);
            (target, wanted.max(LevelFilter::ERROR))
        }));
    let limit = limited.then(|| Arc::new(Limit::new(Instant::now())));
    let limited = limit.clone().map(|limit| Limited { limit, hashes: RandomState::new() });
    let json = options.format == LogFormat::Json;
    // Set once: there is one command in a process.
    let _ = (JSON.set(json), OPTIONS.set(options.clone()));
    if json {
        progress::never();
    }
    let lines = tracing_subscriber::fmt::layer().with_writer(Lines).log_internal_errors(false);
    let lines = match options.format {
        LogFormat::Text | LogFormat::Unset => lines.event_format(Text).boxed(),
        LogFormat::Json => {
            lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
        }
    };
    let all = tracing_subscriber::registry().with(targets).with(limited).with(lines);
    // If the process has a subscriber already, that one stays.
    let _ = tracing::subscriber::set_global_default(all);
    // On the command line they are errors.
    unknown(&named).for_each(|message| tracing::warn!(target: LOG, "{FILTER}: {message}"));
    Logging { limit }
}

/// Logs until it is dropped.
pub struct Logging {
    limit: Option<Arc<Limit>>,
}

impl Drop for Logging {
    fn drop(&mut self) {
        // If nobody reads standard error, a message about it would only keep the process from ending.
        let Some(lost) = DPDK_LOG.get().map_or(Some(0), |relay| relay.drain(PATIENCE)) else { return };
        if lost > 0 {
            report_lost(lost);
        }
        let left_out = self.limit.as_ref().map_or(0, |limit| limit.left_out());
        if left_out > 0 {
            tracing::warn!(target: LOG, "messages left out, more than {PER_SECOND} a second of a kind: {left_out}");
        }
    }
}

/// A line of DPDK's log: its level, its target and its text.
type DpdkLine = (log::Level, String, String);

/// DPDK's log on its way to standard error. DPDK calls [`log_dpdk`] with a lock that all threads need which
/// log through DPDK, workers among them, so standard error may not hold it up.
static DPDK_LOG: OnceLock<Relay<DpdkLine>> = OnceLock::new();

/// Takes a line of DPDK's log, with its log type as target.
fn log_dpdk(line: &LogLine<'_>) {
    let level = match line.level {
        LogLevel::Error => log::Level::Error,
        LogLevel::Warning => log::Level::Warn,
        LogLevel::Info => log::Level::Info,
        LogLevel::Debug => log::Level::Debug,
    };
    let line = (level, format!("{DPDK}::{}", line.log_type), line.text.to_owned());
    match DPDK_LOG.get() {
        Some(relay) => relay.send(line),
        None => print_dpdk(Entry::Line(line)),
    }
}

/// Logs a line of DPDK's log.
fn print_dpdk(entry: Entry<DpdkLine>) {
    let (level, target, text) = match entry {
        Entry::Line(line) => line,
        Entry::Lost(lines) => return report_lost(lines),
    };
    // It cannot fail.
    let _ = tracing_log::format_trace(
        &log::Record::builder().level(level).target(&target).args(format_args!("{text}")).build(),
    );
}

fn report_lost(lines: u64) {
    tracing::warn!(target: LOG, "lines of DPDK's log left out, more than standard error takes: {lines}");
}

/// Standard error, beside a progress bar.
struct Lines;

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self
    }
}

impl std::io::Write for Lines {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        // A message arrives in one piece.
        progress::aside(|| std::io::Write::write_all(&mut std::io::stderr(), line)).map(|()| line.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Prints the message alone, without time and level. Warnings are marked, except those of these targets: the
/// warnings of elements and configurations have Click's form.
struct Text;

const UNMARKED: [&str; 3] = ["element", CONFIGURATION, AGENT];

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let normalized = event.normalized_metadata();
        let about = normalized.as_ref().unwrap_or_else(|| event.metadata());
        let target = about.target();
        if *about.level() == Level::WARN && !UNMARKED.contains(&target) {
            writer.write_str("warning: ")?;
        }
        if target.starts_with(DPDK) {
            write!(writer, "{target}: ")?;
        }
        let mut message = Message { writer: writer.by_ref(), result: Ok(()) };
        event.record(&mut message);
        message.result?;
        writeln!(writer)
    }
}

/// Writes a message without its other fields.
struct Message<'a> {
    writer: Writer<'a>,
    result: fmt::Result,
}

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.result = write!(self.writer, "{value:?}");
        }
    }
}

/// Leaves messages out where there are too many of a kind.
/// The kind is the place in the program, with the element or DPDK's log type.
struct Limited {
    limit: Arc<Limit>,
    hashes: RandomState,
}

impl<S: Subscriber> Layer<S> for Limited {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let about = event.metadata();
        // A configuration has a bounded number of errors, and all of them are shown at once. A user who
        // requests details gets all messages.
        if [LOG, CONFIGURATION, COMMAND].contains(&about.target()) || *about.level() > Level::INFO {
            return true;
        }
        // The messages of elements have one call site for each level, in the runtime: the place is where the
        // element logs.
        let place = (about.callsite(), runtime::log_place());
        let mut of = MessageOrigin { hashes: &self.hashes, hash: self.hashes.hash_one(place) };
        event.record(&mut of);
        match self.limit.pass(of.hash, Instant::now()) {
            None => false,
            Some(0) => true,
            Some(left_out) => {
                let mut from = MessageFrom(String::new());
                event.record(&mut from);
                let from = from.0;
                tracing::warn!(
                    target: LOG,
                    "messages left out that are like the next one{from}, more than {PER_SECOND} a second: {left_out}"
                );
                true
            }
        }
    }
}

/// The element or log type that a message comes from.
struct MessageOrigin<'a> {
    hashes: &'a RandomState,
    hash: u64,
}

impl Visit for MessageOrigin<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if ["element", "log.target"].contains(&field.name()) {
            self.hash ^= self.hashes.hash_one(value);
        }
    }
    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

/// Where a message comes from, in words; nothing if it says that itself.
struct MessageFrom(String);

impl Visit for MessageFrom {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "element" => self.0 = format!(", from element '{value}'"),
            "log.target" => self.0 = format!(", from {value}"),
            _ => {}
        }
    }
    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn errors_name_the_variable() {
        use std::os::unix::ffi::OsStrExt;
        let command = Command::new("valiant");
        let filter = |value: &[u8], from| Filter.parse_ref_(&command, None, OsStr::from_bytes(value), from);
        let format = |value: &[u8], from| Format.parse_ref_(&command, None, OsStr::from_bytes(value), from);
        let line = |e: clap::Error| e.to_string().lines().next().unwrap_or_default().to_owned();
        let of = ValueSource::EnvVariable;
        assert_eq!(
            line(filter(b"bogus", of).unwrap_err()),
            "error: environment variable VALIANT_LOG: 'bogus' is not a level, such as warn, nor TARGET=LEVEL, such as dpdk=debug"
        );
        assert_eq!(
            line(filter(b"\xff", of).unwrap_err()),
            "error: environment variable VALIANT_LOG: not UTF-8"
        );
        assert!(filter(b"warn,nobody=info", of).is_ok() && filter(b"", of).is_ok());
        assert_eq!(
            line(format(b"yaml", of).unwrap_err()),
            "error: environment variable VALIANT_LOG_FORMAT: 'yaml' is neither text nor json"
        );
        assert!(line(format(b"\xff", of).unwrap_err()).contains("VALIANT_LOG_FORMAT"));
        assert_eq!(
            (format(b"json", of).unwrap(), format(b"", of).unwrap()),
            (LogFormat::Json, LogFormat::Unset)
        );
        for wrong in [
            filter(b"bogus", ValueSource::CommandLine).err(),
            format(b"yaml", ValueSource::CommandLine).err(),
        ] {
            assert!(!line(wrong.unwrap()).contains("environment"));
        }
    }

    #[test]
    fn filters() {
        let read = |text| {
            let (all, named) = directives(text).unwrap();
            let named: Vec<String> =
                named.iter().map(|(target, level)| format!("{target}={level}")).collect();
            format!("{all} {}", named.join(" "))
        };
        assert_eq!(read("warn"), "warn ");
        assert_eq!(read("dpdk=debug"), "info dpdk=debug");
        assert_eq!(read("off, element = info,dpdk::pmd.net=trace"), "off element=info dpdk::pmd.net=trace");
        assert_eq!(read(""), "info ");
        for wrong in ["inof", "dpdk", "element=", "warn,,info", "element=loud"] {
            assert!(checked(wrong, false).is_err(), "{wrong}");
        }
    }

    #[test]
    fn targets_that_do_not_exist_are_named() {
        for known in ["etcd=off,log=warn,dpdk=info", "dpdk::pmd.net=debug", "etcd::agent=off", "", "warn"] {
            assert_eq!(checked(known, true).as_deref(), Ok(known));
        }
        let error = |text| checked(text, true).unwrap_err();
        assert!(
            error("warn,etdc=debug").starts_with("unknown target 'etdc' (did you mean 'etcd'?); targets")
        );
        assert!(error("dpdk=info,=debug").starts_with("unknown target ''; targets are router, element,"));
        for wrong in ["dpdkx=info", "dpdk::=info", "route=off", "elements=off"] {
            assert!(error(wrong).ends_with(", log, dpdk and dpdk::TYPE"), "{wrong}");
            assert!(checked(wrong, false).is_ok(), "{wrong}");
        }
    }

    /// Collects where messages come from.
    struct Origins(Arc<std::sync::Mutex<Vec<String>>>);

    impl<S: Subscriber> Layer<S> for Origins {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let mut from = MessageFrom(String::new());
            event.record(&mut from);
            self.0.lock().unwrap().push(from.0);
        }
    }

    #[test]
    fn messages_that_were_left_out_have_an_element() {
        let origins = Arc::default();
        let all = tracing_subscriber::registry().with(Origins(Arc::clone(&origins)));
        tracing::subscriber::with_default(all, || {
            runtime::Hub::default().log(Level::WARN, "check", "a bad packet");
            runtime::Hub::default().log(Level::WARN, "", "something else");
        });
        assert_eq!(*origins.lock().unwrap(), [", from element 'check'", ""]);
    }

    /// Counts messages.
    struct Count(Arc<AtomicUsize>);

    impl<S: Subscriber> Layer<S> for Count {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            self.0.fetch_add(usize::from(event.metadata().target() == "element"), Ordering::Relaxed);
        }
    }

    #[test]
    fn a_flood_suppresses_neither_other_messages_nor_other_elements() {
        let (limit, count) = (Arc::new(Limit::new(Instant::now())), Arc::new(AtomicUsize::new(0)));
        let limited = Limited { limit, hashes: RandomState::new() };
        let all = tracing_subscriber::registry().with(limited).with(Count(Arc::clone(&count)));
        tracing::subscriber::with_default(all, || {
            let hub = runtime::Hub::default();
            for _ in 0..100 {
                hub.log(Level::WARN, "a", "a bad packet");
            }
            assert_eq!(count.swap(0, Ordering::Relaxed), 100);
            hub.log(Level::WARN, "a", "something else");
            hub.log(Level::ERROR, "a", "something worse");
            hub.log(Level::WARN, "b", "a bad packet");
            assert_eq!(count.load(Ordering::Relaxed), 3);
        });
    }
}
