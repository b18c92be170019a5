//! Click's `click`: its driver's command line.

mod clp;
mod dpdk;
mod words;

use crate::run::{RunArgs, run};
use crate::{cli, source};
use clap::{ArgAction, Args, FromArgMatches};
use launch::logging::{self, LogArgs, error};
use runtime::Registry;
use std::process::ExitCode;
use std::sync::Arc;

/// Acts as Click's `click`: one packet at a time, Click's order, Click's flags.
pub(crate) fn click(registry: &Arc<Registry>) -> ExitCode {
    let args = match clicks_forms(dpdk::without_dpdk(std::env::args().collect())) {
        Ok(args) => args,
        Err(complaint) => return refuse(&LogArgs::default(), &complaint),
    };
    let matches = match command().try_get_matches_from(&args) {
        Ok(matches) => matches,
        Err(e) if !e.use_stderr() => return cli::answer(&e),
        Err(e) => {
            return match words::complaint(&e, &args) {
                Some(complaint) => refuse(&LogArgs::default(), &complaint),
                None => {
                    cli::answer(&e);
                    ExitCode::FAILURE
                }
            };
        }
    };
    match RunArgs::from_arg_matches(&matches) {
        Ok(args) if source::is_twice(&args.source) => refuse(&args.log, words::TWICE),
        Ok(mut args) => {
            args.burst = args.burst.or(Some(1));
            // Click does not limit its messages.
            let _logging = logging::start(&args.log, false);
            // The first definition counts.
            source::drop_repeated(&mut args.source.words).iter().for_each(|message| error(message));
            run(registry, &args, "click")
        }
        Err(e) => cli::answer(&e),
    }
}

/// Click's command line, and more options.
fn command() -> clap::Command {
    let command = clap::Command::new("click").disable_version_flag(true).disable_help_flag(true);
    RunArgs::augment_args(command)
        .version(words::VERSION)
        .about("Runs a Click configuration, as Click's user-level driver does (this is Valiant).")
        .mut_arg("version", |a| a.short('v').visible_short_alias('V'))
        .mut_args(|a| {
            // These are an error if they are given twice; of others the last one counts.
            let once = ["output", "exit_handler", "file", "expression"].contains(&a.get_id().as_str());
            let single = matches!(a.get_action(), ArgAction::Set | ArgAction::SetTrue);
            let id = a.get_id().clone();
            if single && !once { a.overrides_with(id) } else { a }
        })
        .infer_long_args(true)
}

/// Reports a command line that is wrong, as Click does, which then exits with 1.
fn refuse(log: &LogArgs, complaint: &str) -> ExitCode {
    let _logging = logging::start(log, false);
    error(complaint);
    words::USAGE.lines().for_each(error);
    ExitCode::FAILURE
}

/// What is left of several short options in one argument without their `a`; `None` if `a` is not among them.
fn without_affinity(arg: &str) -> Option<String> {
    let letters = arg.strip_prefix('-').filter(|letters| letters.len() > 1 && !letters.starts_with('-'))?;
    // The rest of the argument is the value of an option that takes one.
    let flags = letters.find(|c| !"aqtwRVv".contains(c)).unwrap_or(letters.len());
    let at = letters[..flags].find('a')?;
    Some(format!("-{}{}", &letters[..at], &letters[at + 1..])).filter(|_| flags > 1)
}

/// Options in forms that only Click's driver has: `--no-` undoes an option, `--warnings` undoes
/// `--no-warnings`, and `-a`, `--affinity` or `--cpu` binds each thread to a processor, from number N on
/// (`-aN`, `--cpu=N`; else 0). The error is Click's complaint of an abbreviation of several options.
fn clicks_forms(args: Vec<String>) -> Result<Vec<String>, String> {
    let mut out: Vec<String> = Vec::new();
    let (mut first_cpu, mut threads) = (None, 1);
    let mut args = args.into_iter();
    while let Some(mut arg) = args.next() {
        let end = arg.find('=').unwrap_or(arg.len());
        if let Some(full) = clp::in_full(&arg)? {
            arg.replace_range(..end, &full);
        }
        if let Some(rest) = without_affinity(&arg) {
            first_cpu = Some("0".to_owned());
            arg = rest;
        }
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value)),
            _ => (&arg[..], None),
        };
        let short = |c: char| arg.strip_prefix('-').and_then(|rest| rest.strip_prefix(c));
        match name {
            "--warnings" => out.retain(|known| !["-w", "--no-warnings"].contains(&&known[..])),
            "--no-allow-reconfigure" => {
                out.retain(|known| !["-R", "--allow-reconfigure"].contains(&&known[..]));
            }
            "--no-affinity" | "--no-cpu" => first_cpu = None,
            "--affinity" | "--cpu" => first_cpu = Some(value.unwrap_or("0").to_owned()),
            _ if short('a').is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit())) => {
                first_cpu = Some(short('a').filter(|n| !n.is_empty()).unwrap_or("0").to_owned());
            }
            "--" => {
                out.push(arg);
                out.extend(args.by_ref());
            }
            _ => {
                let given = match name {
                    "--threads" => value,
                    _ => short('j').filter(|n| !n.is_empty()),
                };
                let next = ["-j", "--threads"].contains(&&arg[..]).then(|| args.next()).flatten();
                // As few as that are one.
                if let Some(number) = given.or(next.as_deref()).and_then(|n| n.parse::<i64>().ok()) {
                    threads = usize::try_from(number.max(1)).unwrap_or(usize::MAX);
                    if number < 1 {
                        out.push("--threads=1".to_owned());
                        continue;
                    }
                }
                let takes_value = ["-h", "-x", "-e", "-f", "-o", "-C", "-p", "-u"].contains(&&arg[..])
                    || ["--handler", "--exit-handler", "--expression", "--file", "--output", "--clickpath"]
                        .contains(&&arg[..])
                    || ["--port", "--unix-socket", "--socket"].contains(&&arg[..]);
                out.push(arg);
                out.extend(next);
                if takes_value {
                    // Whatever it looks like, it is no option.
                    out.extend(args.next());
                }
            }
        }
    }
    if let Some(first) = first_cpu {
        let last = first
            .parse::<usize>()
            .map_or_else(|_| first.clone(), |n| n.saturating_add(threads - 1).to_string());
        out.insert(1.min(out.len()), format!("--cpus={first}-{last}"));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_clicks_options() {
        let args = |a: &str| a.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (given, meant) in [
            ("click -w --warnings a.click", "click a.click"),
            ("click --warnings -w a.click", "click -w a.click"),
            ("click -R --no-allow-reconfigure a.click", "click a.click"),
            ("click -j 2 -a a.click", "click --cpus=0-1 -j 2 a.click"),
            ("click -a3 -j3 a.click", "click --cpus=3-5 -j3 a.click"),
            ("click --cpu=1 --threads=2 a.click", "click --cpus=1-2 --threads=2 a.click"),
            ("click -a --no-affinity a.click", "click a.click"),
            ("click -qa a.click", "click --cpus=0-0 -q a.click"),
            ("click -taw -j 2 a.click", "click --cpus=0-1 -tw -j 2 a.click"),
            ("click -ea", "click -ea"),
            ("click -- -a", "click -- -a"),
            ("click -h a.b", "click -h a.b"),
            (
                "click --so 5 --unix s --no-w --exi h a.click",
                "click --socket 5 --unix-socket s --no-warnings --exit-handler h a.click",
            ),
            ("click --sim --exi a.b --cl=/lib", "click --simtime --exit-handler a.b --clickpath=/lib"),
            ("click --simtime=5 --sim=6 --simul=7", "click --simtime=5 --simtime=6 --simulation-time=7"),
            ("click --no-w --war a.click", "click a.click"),
            ("click -w --no-no-warn a.click", "click a.click"),
            ("click --unixsocket s --exithandler h", "click --unix-socket s --exit-handler h"),
            ("click -j 0 a.click", "click --threads=1 a.click"),
            ("click --th=-3 -a a.click", "click --cpus=0-0 --threads=1 a.click"),
            ("click -o -a a.click", "click -o -a a.click"),
        ] {
            assert_eq!(clicks_forms(args(given)), Ok(args(meant)));
        }
        assert!(clicks_forms(args("click -q --s a.click")).is_err());
    }
}
