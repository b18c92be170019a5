//! A trial is made: the generator runs beside the device, or the device makes its traffic itself.

use crate::child::{Child, End};
use crate::cost::Cost;
use crate::device::Device;
use crate::log::tail;
use crate::model::{Experiment, Measure, Settings};
use crate::reading::SIZES;
use crate::start::places_of;
use crate::trial::{Failed, Traffic, Trial};
use crate::varied::DEVICE;
use serde_json::Value;
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How long a generator may take beside its traffic, before it is ended.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(2);
/// The same while the device makes its traffic itself: it may need all processors.
const COUNT_POLL: Duration = Duration::from_millis(50);

/// The command line of the generator; the device may be `apart`, on a machine of its own.
fn arguments(experiment: &Experiment, settings: &Settings, traffic: Traffic, apart: bool) -> Vec<OsString> {
    let mut all: Vec<OsString> = ["gen", "--json", "--quiet"].map(OsString::from).to_vec();
    let option = |name: &str, value: &str| OsString::from(format!("--{name}={value}"));
    let cable = experiment.calibrate.as_ref().filter(|_| traffic.calibration);
    let (to, sink) = cable.map_or((&experiment.to, &experiment.sink), |cable| (&cable.to, &cable.sink));
    all.extend(to.iter().map(|port| option("to", port)));
    all.extend(sink.iter().map(|port| option("sink", port)));
    all.extend(experiment.outputs.iter().map(|addresses| option("outputs", addresses)));
    if experiment.direction_at(settings).turns() {
        all.extend(experiment.reverse_outputs.iter().map(|addresses| option("reverse-outputs", addresses)));
    }
    let places = places_of(experiment, settings, apart);
    all.extend(places.generator.map(|cpus| option("cpus", &cpus)));
    all.push(option("threads", &experiment.generator_threads.to_string()));
    all.push(option("rate", &format!("{}pps", traffic.rate)));
    all.push(match traffic.burst {
        None => option("time", &format!("{}s", traffic.seconds)),
        Some(frames) => {
            let count = (frames as f64 * experiment.load_at(settings)).round() as u64;
            option("count", &count.to_string())
        }
    });
    if let Some(wanted) = traffic.connections {
        all.retain(|word| !word.to_string_lossy().starts_with("--time="));
        all.push(option("connections", &wanted.connections.to_string()));
        all.push(option("answer", &format!("{}pps", traffic.answer)));
    }
    // What is sent without the device is of no connections.
    let set_up = experiment.set_up.as_ref().filter(|_| !traffic.calibration);
    if let Some(set_up) = set_up {
        all.push(option("connections", &experiment.connections_with(settings).to_string()));
        all.push(option("set-up", &format!("{}pps", set_up.rate)));
        all.push(option("answer", &format!("{}pps", set_up.answers())));
    }
    // In a pseudorandom order, as RFC 9693 asks for, unless the file says otherwise.
    let connected = matches!(experiment.measure, Measure::Connections(_)) || set_up.is_some();
    if connected && !settings.contains_key("random") {
        all.push("--random".into());
    }
    all.push(option("wait", &format!("{}s", experiment.wait.as_secs_f64())));
    for (name, value) in settings {
        match (name.as_str(), value.as_str()) {
            ("rate" | "program", _) => {}
            ("flows", _) if traffic.connections.is_some() || set_up.is_some() => {}
            (name, _) if name.starts_with('$') || DEVICE.contains(&name) => {}
            ("ipv6" | "random", "false") => {}
            ("ipv6" | "random", "true") => all.push(format!("--{name}").into()),
            (name, value) => all.push(option(name, value)),
        }
    }
    all
}

/// Makes a trial. `log` gets what the generator says beside its report.
pub(crate) fn make(
    experiment: &Experiment,
    settings: &Settings,
    traffic: Traffic,
    device: &mut Device,
    (program, log): (&Path, &Path),
    stop: &dyn Fn() -> bool,
) -> Result<Trial, Failed> {
    let because = |text: String| Failed::Because(text);
    let words = arguments(experiment, settings, traffic, device.is_apart());
    let errors = std::fs::File::create(log)
        .map_err(|e| because(format!("cannot write {}: {}", log.display(), launch::reason(&e))))?;
    device.begin(stop).map_err(because)?;
    let mut generator =
        Child::start(program.as_os_str(), &words, &experiment.dir, &[], (Stdio::piped(), errors.into()))
            .map_err(because)?;
    let report = generator.text();
    let (began, waited) = (Instant::now(), device.kept_waiting(stop).map_err(because)?);
    // The generator waits at most ten times as long, and for answers once more.
    let answers =
        traffic.connections.map_or(0.0, |all| all.connections as f64 / traffic.answer.max(1) as f64);
    let before = experiment.set_up.as_ref().map_or(0.0, |all| {
        experiment.connections_with(settings) as f64 * (1.0 / all.rate as f64 + 1.0 / all.answers() as f64)
    });
    let waits = match (&experiment.set_up, traffic.connections) {
        (Some(_), _) => 30,
        (None, Some(_)) => 20,
        (None, None) => 10,
    };
    let limit =
        Duration::from_secs_f64(traffic.seconds + answers + before) + waits * experiment.wait + PATIENCE;
    let status = loop {
        let ended = generator.ended();
        // Its report is read when all of it has come.
        if let Some(status) = ended.filter(|end| *end != End::Code(0) || report.is_finished()) {
            break status;
        }
        if stop() {
            return Err(Failed::Stopped);
        }
        if let Some(end) = device.ended() {
            return Err(because(end));
        }
        if began.elapsed() > limit {
            return Err(because(format!(
                "the generator has not ended {} s after its traffic: {}",
                PATIENCE.as_secs(),
                tail(log)
            )));
        }
        std::thread::sleep(POLL);
    };
    let report = if report.is_finished() { report.join().unwrap_or_default() } else { Vec::new() };
    let report: Option<Value> = serde_json::from_slice(&report).ok();
    let interrupted = report.as_ref().and_then(|report| report.get("interrupted")?.as_bool());
    // By the signal that ends the whole.
    if stop() {
        return Err(Failed::Stopped);
    }
    // One that has ended in the last moments has lost what was on the way.
    if let Some(end) = device.ended() {
        return Err(because(end));
    }
    let trial = report.filter(|_| status == End::Code(0) && interrupted == Some(false));
    let waited = device.kept_waiting(stop).map_err(because)?.saturating_sub(waited).as_secs_f64();
    let cost = device.end(stop).map_err(because)?;
    trial
        .and_then(|report| Trial::read(traffic, &report))
        .map(|trial| Trial { waited: trial.waited + waited, cost, ..trial })
        .ok_or_else(|| because(format!("the generator has failed ({status}): {}", tail(log))))
}

/// Makes a trial with a device that makes its traffic itself.
pub(crate) fn count(
    experiment: &Experiment,
    settings: &Settings,
    seconds: f64,
    device: &mut Device,
    stop: &dyn Fn() -> bool,
) -> Result<Trial, Failed> {
    let silent = || Failed::Because("the device does not answer on its control socket".to_owned());
    device.begin(stop).map_err(Failed::Because)?;
    let waited = device.kept_waiting(stop).map_err(Failed::Because)?;
    let before = device.stats(stop).map_err(Failed::Because)?.ok_or_else(silent)?;
    if let Some(name) = experiment.counted.iter().find(|name| !before.has(name)) {
        return Err(Failed::Because(format!("the device has no element '{name}' (`count` in [traffic])")));
    }
    let began = Instant::now();
    while began.elapsed().as_secs_f64() < seconds {
        if stop() {
            return Err(Failed::Stopped);
        }
        if let Some(end) = device.ended() {
            return Err(Failed::Because(end));
        }
        std::thread::sleep(COUNT_POLL.min(Duration::from_secs_f64(seconds)));
    }
    let after = device.stats(stop).map_err(Failed::Because)?.ok_or_else(silent)?;
    let router = after.since(&before);
    let size = SIZES.iter().find_map(|name| settings.get(*name)?.parse().ok());
    let bytes = size.unwrap_or(0);
    let waited = device.kept_waiting(stop).map_err(Failed::Because)?.saturating_sub(waited).as_secs_f64();
    let trial = Trial::count(&router, &experiment.counted, after.seconds_since(&before), bytes);
    let cost = device.end(stop).map_err(Failed::Because)?;
    Ok(Trial { waited, cost: cost.map(|cost| Cost { router: Some(router), ..cost }), ..trial })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trial with a script in place of the generator.
    fn made(script: &str, stop: &dyn Fn() -> bool) -> Result<Trial, Failed> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("e.toml");
        std::fs::write(&file, "[traffic]\nto = \"a\"\nsink = \"b\"\n").unwrap();
        let experiment = Experiment::load(&file).unwrap();
        let program = dir.path().join("generator");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let (log, settings) = (dir.path().join("log"), Settings::new());
        let mut device = Device::start(&experiment, &settings, (&program, &log), &|| false).unwrap();
        let traffic = Traffic { rate: 1, seconds: 0.1, ..Traffic::default() };
        make(&experiment, &settings, traffic, &mut device, (&program, &log), stop)
    }

    #[test]
    fn a_report_may_be_longer_than_a_pipe() {
        let made = made("head -c 1000000 /dev/zero\nexit 7", &|| false);
        let Err(Failed::Because(reason)) = made else { panic!("{made:?}") };
        assert!(reason.contains("failed (exit status 7)"), "{reason}");
    }

    #[test]
    fn a_trial_is_ended_though_something_has_its_output_open() {
        let began = Instant::now();
        let soon = || began.elapsed() > Duration::from_millis(500);
        // A process that does not end with the others.
        let made = made("setsid sleep 20 &", &soon);
        assert!(matches!(made, Err(Failed::Stopped)), "{made:?}");
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    }
}
