//! What an element costs by itself: the packets that came to it in a configuration are played to it, by a
//! router that has nothing else to do.

use crate::clock::Runtime;
use crate::elements::{self, MOST_OUTPUTS, sink};
use crate::kept::Kept;
use crate::observe::{Observed, Seen};
use crate::sample::{Sample, run};
use crate::stream::Numbered;
use crate::text::declarations;
use lang::Source;
use locks::IgnorePoison;
use measure::ranks::median;
use runtime::{Options, Phase, Registry, Role};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// For how long an element runs before it is measured (tables are filled, memory is there), and how often it
/// is.
const TIMES: (Duration, usize) = (Duration::from_millis(30), 30);
/// The most bytes of other memory for a packet.
const MOST_OTHERS: usize = 1 << 16;

/// What measurements have in common.
pub(crate) struct Bench<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) options: &'a Options,
    pub(crate) runtime: Runtime,
}

/// Cycles of each packet in one element of a configuration, which runs alone unless that is known.
pub(crate) fn measure(
    observed: &Observed,
    index: usize,
    bench: &Bench<'_>,
    kept: &mut Kept,
) -> Result<f64, String> {
    let seen = &observed.elements[index];
    if seen.outputs.len() > MOST_OUTPUTS {
        return Err(format!("it has more than {MOST_OUTPUTS} outputs"));
    }
    let stream = Numbered::new(Arc::clone(&seen.stream), None);
    let text = alone(observed, index, bench.registry);
    let what = (&text, stream.stream.lock().ignore_poison().digest(), format!("{:?}", seen.live));
    if let Some(cycles) = kept.get(&what) {
        return Ok(cycles);
    }
    let mut with = bench.registry.clone();
    elements::register(&mut with, &seen.live);
    let source = Source::new("one element", format!("define($STREAM {});\n{text}", stream.number));
    let (router, samples) = run(source, &Arc::new(with), bench.options, TIMES)
        .map_err(|diags| diags.render(diags.sources(), false).trim().to_owned())?;
    let e = &observed.config.elements[index];
    let at = router.find("", &e.name).ok_or("it is not there")?.0 as usize;
    let cycles = per_packet(seen, &samples, at, bench.runtime).ok_or("no packets come to it alone")?;
    Ok(kept.put(&what, &format!("{}({})", e.class, e.config), cycles))
}

/// Cycles of a packet in the element with this number, without what reading the clock adds.
fn per_packet(seen: &Seen, samples: &[Sample], at: usize, runtime: Runtime) -> Option<f64> {
    let timed = samples.iter().map(|sample| &sample.stats[at]).filter(|s| s.cycles > 0);
    median(timed.map(|s| {
        (s.cycles as f64 - runtime.reading * seen.intervals(s) as f64).max(0.0) / s.handled() as f64
    }))
}

/// What each source costs, by its index, and a run of a task beside what the elements take.
pub(crate) type Sources = (Vec<(usize, f64)>, f64);

/// Runs all elements without inputs, and nothing behind them: cycles of each packet. They are together
/// because the frames of one port take cache from those of another.
pub(crate) fn sources(observed: &Observed, bench: &Bench<'_>, kept: &mut Kept) -> Result<Sources, String> {
    let all = &observed.elements;
    let which: Vec<usize> =
        (0..all.len()).filter(|n| all[*n].inputs.is_empty() && all[*n].worked()).collect();
    let mut with = bench.registry.clone();
    elements::register(&mut with, &[]);
    let mut text = declarations(&observed.config, |n| {
        which.contains(&n) || is_information(observed, bench.registry, n, &which)
    });
    // Buffers come back to a port when the packets of all queues have gone before them.
    let hold = observed.waiting() / which.len().max(1);
    let (each, among) = observed.memory_of_elements();
    for n in &which {
        let name = &observed.config.elements[*n].name;
        for output in 0..all[*n].outputs.len() {
            let batch = all[*n].stats.batch_size().round().max(1.0);
            let class = sink(output);
            let _ = writeln!(
                text,
                "{name} [{output}] -> predict_sink_{n}_{output} :: {class}({batch}, {hold}, {each}, {among});"
            );
        }
    }
    let what =
        |n: Option<usize>| (&text, n.map(|n| &observed.config.elements[n].name), observed.digest(&which));
    let known: Option<Vec<_>> = which.iter().map(|n| Some((*n, kept.get(&what(Some(*n)))?))).collect();
    if let Some(known) = known.zip(kept.get(&what(None))) {
        return Ok(known);
    }
    let source = Source::new("sources", text.clone());
    let (router, samples) = run(source, &Arc::new(with), bench.options, TIMES)
        .map_err(|diags| diags.render(diags.sources(), false).trim().to_owned())?;
    let find = |n: usize| router.find("", &observed.config.elements[n].name).map(|id| id.0 as usize);
    let cost = |n: usize| per_packet(&all[n], &samples, find(n)?, bench.runtime);
    let mut costs: Vec<(usize, f64)> = which.iter().filter_map(|n| Some((*n, cost(*n)?))).collect();
    let per_run = |sample: &Sample, cycles: f64| {
        let sources = which.iter().filter_map(|n| Some((&all[*n], &sample.stats[find(*n)?])));
        cycles / sources.map(|(seen, s)| seen.runs(s) + s.idle_polls).sum::<u64>() as f64
    };
    let whole = median(samples.iter().map(|sample| per_run(sample, sample.cycles)));
    let elements = median(samples.iter().map(|sample| {
        let cycles: u64 = sample.stats.iter().map(|s| s.cycles + s.idle_cycles).sum();
        let batches: u64 = sample.stats.iter().map(|s| s.calls + s.emissions).sum();
        per_run(sample, cycles as f64 - bench.runtime.reading * batches as f64)
    }));
    let run = whole.zip(elements).map_or(bench.runtime.run, |(whole, elements)| whole - elements);
    let run = run.clamp(0.0, 2.0 * bench.runtime.run);
    for (n, cycles) in &mut costs {
        let e = &observed.config.elements[*n];
        *cycles = kept.put(&what(Some(*n)), &format!("{}({})", e.class, e.config), *cycles);
    }
    Ok((costs, kept.put(&what(None), "a run of a task", run)))
}

/// The configuration with that element alone. `$STREAM` is the number of its packets.
fn alone(observed: &Observed, index: usize, registry: &Registry) -> String {
    let seen = &observed.elements[index];
    let all = &observed.config.elements;
    let named = named(observed, index);
    let mut text = declarations(&observed.config, |other| {
        other == index || named.contains(&other) || is_information(observed, registry, other, &[index])
    });
    let name = &observed.config.elements[index].name;
    let batch = seen.stats.batch_size().round().max(1.0);
    let others = (observed.memory_of_others(index) as usize).min(MOST_OTHERS) / 256 * 256;
    if !seen.inputs.is_empty() {
        let _ = writeln!(text, "predict_replay :: PredictReplay($STREAM, {}, {others});", seen.behind);
    }
    for (input, pull) in seen.inputs.iter().enumerate() {
        let queue = if *pull { format!("predict_queue_{input} :: Queue(1000) -> ") } else { String::new() };
        let _ = writeln!(text, "predict_replay [{input}] -> {queue}[{input}] {name};");
    }
    for output in 0..seen.outputs.len() {
        let _ = writeln!(text, "{name} [{output}] -> predict_sink_{output} :: {}({batch});", sink(output));
    }
    // No packets come to those that it only knows by name.
    for other in named {
        let name = &all[other].name;
        for port in 0..observed.elements[other].inputs.len() {
            let _ = writeln!(text, "Idle -> [{port}] {name};");
        }
        for port in 0..observed.elements[other].outputs.len() {
            let _ = writeln!(text, "{name} [{port}] -> Idle;");
        }
    }
    text
}

/// The elements that an element needs because its configuration has their names, and those that they need.
/// Ports are none of them: they would receive.
fn named(observed: &Observed, index: usize) -> Vec<usize> {
    let (all, seen) = (&observed.config.elements, &observed.elements);
    let passive =
        |n: usize| seen[n].has_no_ports() || (!seen[n].inputs.is_empty() && seen[n].role != Role::DeviceSink);
    let mut found = vec![index];
    let mut at = 0;
    while let Some(of) = found.get(at).copied() {
        at += 1;
        let new = (0..all.len())
            .filter(|n| !found.contains(n) && passive(*n) && mentions(&all[of].config, &all[*n].name));
        let new: Vec<usize> = new.collect();
        found.extend(new);
    }
    found.split_off(1)
}

/// Whether an element has information for others, all of which are among those of these indexes or have no
/// ports.
fn is_information(observed: &Observed, registry: &Registry, index: usize, there: &[usize]) -> bool {
    let (all, seen) = (&observed.config.elements, &observed.elements);
    let of_others = || {
        let mut others = (0..all.len()).filter(|n| !there.contains(n) && !seen[*n].has_no_ports());
        others.any(|n| mentions(&all[index].config, &all[n].name))
    };
    let class = registry.get(&all[index].class);
    seen[index].has_no_ports() && class.is_some_and(|class| class.phase == Phase::Info) && !of_others()
}

/// Whether a configuration string has this name of an element, or the last part of it, as a word.
fn mentions(config: &str, name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    let mut words = config.split(|c: char| !(c.is_alphanumeric() || "_@/".contains(c)));
    words.any(|word| word == name || word == last)
}
