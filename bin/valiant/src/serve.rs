//! `valiant bench serve`: results of experiments in a browser, while they are measured and afterwards.

use axum::extract::{Path as InPath, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use clap::Args;
use experiment::{Experiment, Report, Results};
use launch::logging::error;
use launch::output::print;
use launch::{StopSignals, reason};
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// How often a browser asks again while there is something left to measure, in seconds.
const AGAIN: u32 = 2;
/// What is said of an experiment without results.
const NOTHING: &str = "nothing has been measured yet";
/// The name by which a browser on this host may call it.
const HERE: &str = "localhost";
/// How often the server looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) const EXAMPLES: &str = "\
Each request reads what has been measured until then, so a page shows an experiment that is running; it asks again by itself until all is measured. Nothing can be changed, and nothing but the named experiments is shown.

Examples:
  valiant bench serve sizes.toml              http://127.0.0.1:8088/
  valiant bench serve experiments             all of a directory
  valiant bench serve . --listen 0.0.0.0:8088 for other hosts too: whoever can connect sees the results
  curl -s http://127.0.0.1:8088/sizes.json | jq .results[].pps.median

Exit status: 0 it was ended by Ctrl-C, 1 it could not serve, 2 wrong usage.";

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Experiment files, or directories with some.
    #[arg(default_value = ".")]
    files: Vec<PathBuf>,
    /// The address and port to listen at.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8088")]
    listen: SocketAddr,
    /// Where the results are, of a single experiment; else beside each file in NAME.results.
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

/// What is served.
struct Served {
    experiments: Vec<(Experiment, PathBuf)>,
}

impl Served {
    /// The report of what has been measured; none: nothing has been.
    fn report(&self, name: &str) -> Option<Result<Option<Value>, String>> {
        let (experiment, dir) = self.experiments.iter().find(|(experiment, _)| experiment.name == name)?;
        let read = || -> Result<Option<Value>, String> {
            let Some(results) = Results::read(dir, experiment)? else { return Ok(None) };
            Ok(Some(Report::new(experiment, &results).json()))
        };
        Some(read())
    }
}

/// Whether there is something left to measure.
fn is_open(report: &Value) -> bool {
    let rows = report.get("results").and_then(Value::as_array);
    let open = |row: &Value| row.get("rounds_open").and_then(Value::as_u64).unwrap_or(0) > 0;
    rows.is_some_and(|rows| rows.is_empty() || rows.iter().any(open))
}

/// A page; a browser asks for it again if it will change.
fn page(text: String, again: bool) -> Response {
    let content = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        // Pages have no scripts, and load nothing.
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'; img-src data:"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    let mut response = (content, text).into_response();
    if again && let Ok(value) = AGAIN.to_string().parse() {
        response.headers_mut().insert(header::REFRESH, value);
    }
    response
}

fn failed(status: StatusCode, message: String) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], message + "\n").into_response()
}

/// Whether a request means this host, if only this host is to be served: a page from elsewhere, whose name
/// leads here (DNS rebinding), is not to read what is shown.
fn is_meant(host: Option<&HeaderValue>) -> bool {
    let name = host.and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    name.is_some_and(|name| {
        let name = name.host();
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        name.eq_ignore_ascii_case(HERE) || address.is_ok_and(|address| address.is_loopback())
    })
}

async fn only_meant(request: Request, next: Next) -> Response {
    if is_meant(request.headers().get(header::HOST)) {
        next.run(request).await
    } else {
        let message = format!(
            "this is for programs of this host, which call it {HERE} or by its address; for others: --listen"
        );
        failed(StatusCode::FORBIDDEN, message)
    }
}

async fn all(State(served): State<Arc<Served>>) -> Response {
    let names = served.experiments.iter().map(|(experiment, _)| experiment.name.clone());
    let mut reports: Vec<(String, Value)> = Vec::new();
    let (mut open, mut others) = (false, Vec::new());
    for name in names {
        match served.report(&name) {
            Some(Ok(Some(report))) => {
                open |= is_open(&report);
                reports.push((name, report));
            }
            // It may begin at any time.
            Some(Ok(None)) => {
                open = true;
                others.push(format!("{name}: {NOTHING}"));
            }
            // The rest is shown nevertheless.
            Some(Err(e)) => others.push(format!("{name}: {e}")),
            None => {}
        }
    }
    let pages: Vec<(String, &Value)> = reports.iter().map(|(name, report)| (name.clone(), report)).collect();
    match experiment::index("Experiments", &pages, &others) {
        Ok(text) => page(text, open),
        Err(e) => failed(StatusCode::INTERNAL_SERVER_ERROR, e),
    }
}

async fn one(State(served): State<Arc<Served>>, InPath(name): InPath<String>) -> Response {
    let json = name.strip_suffix(".json").filter(|_| served.report(&name).is_none());
    let (name, json) = (json.unwrap_or(&name), json.is_some());
    match served.report(name) {
        None => failed(StatusCode::NOT_FOUND, format!("there is no experiment {name}")),
        Some(Ok(None)) => {
            let mut response = failed(StatusCode::NOT_FOUND, format!("{name}: {NOTHING}"));
            if let Ok(value) = AGAIN.to_string().parse() {
                response.headers_mut().insert(header::REFRESH, value);
            }
            response
        }
        Some(Ok(Some(report))) if json => {
            ([(header::CONTENT_TYPE, "application/json")], format!("{report:#}\n")).into_response()
        }
        Some(Ok(Some(report))) => match experiment::page(&report) {
            Ok(text) => page(text, is_open(&report)),
            Err(e) => failed(StatusCode::INTERNAL_SERVER_ERROR, e),
        },
        Some(Err(e)) => failed(StatusCode::INTERNAL_SERVER_ERROR, e),
    }
}

/// The experiments of some files and directories; errors of files that were named are told.
fn experiments(args: &ServeArgs) -> Result<Vec<(Experiment, PathBuf)>, String> {
    let mut found = Vec::new();
    for path in &args.files {
        let files = if path.is_dir() { crate::papers::files(path)? } else { vec![path.clone()] };
        for file in files {
            match Experiment::load(&file) {
                Ok(experiment) => {
                    let beside = experiment.dir.join(format!("{}.results", experiment.name));
                    found.push((experiment, args.results.clone().unwrap_or(beside)));
                }
                Err(diags) => {
                    launch::report(&diags);
                    // Others of a directory are shown nevertheless.
                    if !path.is_dir() {
                        return Err(format!("{}: no experiment", file.display()));
                    }
                }
            }
        }
    }
    for (at, (experiment, _)) in found.iter().enumerate() {
        if found[..at].iter().any(|(other, _)| other.name == experiment.name) {
            return Err(format!("there are two experiments named {}: name one of them", experiment.name));
        }
    }
    if args.results.is_some() && found.len() != 1 {
        return Err("--results is for a single experiment".to_owned());
    }
    if found.is_empty() {
        return Err("there is no experiment without mistakes".to_owned());
    }
    Ok(found)
}

/// `valiant bench serve`.
pub(crate) fn serve(args: &ServeArgs) -> Result<ExitCode, String> {
    let served = Arc::new(Served { experiments: experiments(args)? });
    let stop = StopSignals::watch();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|e| format!("cannot serve: {}", reason(&e)))?;
    let mut routes = axum::Router::new().route("/", get(all)).route("/{name}", get(one)).with_state(served);
    if args.listen.ip().is_loopback() {
        routes = routes.layer(from_fn(only_meant));
    }
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(args.listen).await;
        let listener = listener.map_err(|e| format!("cannot listen at {}: {}", args.listen, reason(&e)))?;
        let address = listener.local_addr().unwrap_or(args.listen);
        print(&format!("http://{address}/\n"));
        if !address.ip().is_loopback() {
            error(&format!("whoever can connect to {address} sees the results"));
        }
        let ended = async {
            while !stop.wanted() {
                tokio::time::sleep(LOOK).await;
            }
        };
        // Clients that keep their connections open do not keep the program.
        tokio::select! {
            served = axum::serve(listener, routes).into_future() => served.map_err(|e| format!("cannot serve: {}", reason(&e))),
            () = ended => Ok(()),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_to_measure_is_asked_for_again() {
        let report = |open: u64| serde_json::json!({"results": [{"rounds_open": 0}, {"rounds_open": open}]});
        assert!(is_open(&report(1)) && !is_open(&report(0)));
        let header = |again| page(String::new(), again).headers().get(header::REFRESH).cloned();
        assert_eq!((header(false), header(true).map(|value| value == "2")), (None, Some(true)));
    }

    #[test]
    fn only_this_host_is_meant() {
        let meant = |host: &'static str| is_meant(Some(&HeaderValue::from_static(host)));
        for host in ["localhost", "LOCALHOST:8088", "127.0.0.1:8088", "127.8.0.1", "[::1]:8088"] {
            assert!(meant(host), "{host}");
        }
        for host in
            ["evil.example:8088", "localhost.evil.example", "10.0.0.1", "127.0.0.1@evil.example", "", "[::1"]
        {
            assert!(!meant(host), "{host}");
        }
        assert!(!is_meant(None));
    }

    #[test]
    fn experiments_are_found_by_file_and_by_directory() {
        let dir = tempfile::tempdir().unwrap();
        let text = "[traffic]\nto = \"a\"\nsink = \"b\"\n";
        std::fs::write(dir.path().join("one.toml"), text).unwrap();
        std::fs::write(dir.path().join("two.toml"), text).unwrap();
        std::fs::write(dir.path().join("bad.toml"), "[traffic]\n").unwrap();
        let of = |files: Vec<PathBuf>, results: Option<PathBuf>| {
            let listen = "127.0.0.1:0".parse().unwrap();
            experiments(&ServeArgs { files, listen, results })
        };
        let all = of(vec![dir.path().into()], None).unwrap();
        let names: Vec<&str> = all.iter().map(|(experiment, _)| experiment.name.as_str()).collect();
        assert_eq!(names, ["one", "two"]);
        assert_eq!(all[0].1, dir.path().join("one.results"));
        assert!(of(vec![dir.path().join("bad.toml")], None).is_err());
        assert!(
            of(vec![dir.path().join("one.toml"), dir.path().into()], None)
                .unwrap_err()
                .contains("two experiments")
        );
        assert!(of(vec![dir.path().into()], Some("x".into())).unwrap_err().contains("--results"));
        let served = Served { experiments: all };
        assert!(served.report("three").is_none());
        assert_eq!(served.report("one"), Some(Ok(None)));
        assert!(!dir.path().join("one.results").exists(), "reading makes no directory");
    }
}
