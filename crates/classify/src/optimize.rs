//! Makes a decision graph smaller and its paths shorter without changing any answer.
//!
//! The passes follow the account of Click's classifiers in Kohler, "The Click modular router" (2001), and
//! give the same programs: order the tests of each conjunction, let edges skip tests whose answer is known
//! from the path, merge tests of the same word, remove tests that are no longer reached.
//!
//! Work is bounded: at most [`MAX_PATHS`] paths of [`MAX_FACTS`] facts are kept for a test, and
//! the number of comparisons is limited by a [`Budget`]. When it is used up, the graph is correct but larger
//! than it could be.

use crate::graph::{Graph, Layout, Node, Target, Test};
use std::collections::HashMap;

const MAX_PATHS: usize = 4;
const MAX_FACTS: usize = 128;

/// How many comparisons of two tests the optimizer may still make.
pub(crate) struct Budget(pub(crate) u64);

impl Default for Budget {
    fn default() -> Self {
        Budget(50_000_000)
    }
}

/// Runs all passes once.
pub(crate) fn optimize(graph: &mut Graph, layout: Layout, budget: &mut Budget) {
    // Tests that are never reached must not affect which tests are moved.
    sweep(graph);
    sort_chains(graph, layout);
    skip_known(graph, layout, budget);
    merge_words(graph, budget);
    sweep(graph);
}

/// Orders the tests of chains whose edges out of the chain have the same target: their order does not change
/// the answer. The graph is swept.
pub(crate) fn sort_chains(graph: &mut Graph, layout: Layout) {
    let nodes = &mut graph.nodes;
    // The only test with an edge to this one. A test that follows the first test of all stays where it was
    // written.
    let mut only_from: Vec<Option<u32>> = vec![None; nodes.len()];
    let mut seen = vec![false; nodes.len()];
    for (at, node) in nodes.iter().enumerate() {
        for target in node.next {
            if let Target::Step(to) = target {
                only_from[to as usize] = (!seen[to as usize] && at > 0).then_some(at as u32);
                seen[to as usize] = true;
            }
        }
    }
    let mut follower: Vec<Option<usize>> = vec![None; nodes.len()];
    let mut is_follower = vec![false; nodes.len()];
    for at in 0..nodes.len() {
        for branch in 0..2 {
            if let Target::Step(to) = nodes[at].next[branch]
                && only_from[to as usize] == Some(at as u32)
                && nodes[at].next[1 - branch] == nodes[to as usize].next[1 - branch]
            {
                follower[at] = Some(to as usize);
                is_follower[to as usize] = true;
            }
        }
    }
    let mut chain = Vec::new();
    for head in 0..nodes.len() {
        if is_follower[head] || follower[head].is_none() {
            continue;
        }
        chain.clear();
        let mut at = Some(head);
        while let Some(here) = at {
            chain.push(here);
            at = follower[here];
        }
        let mut tests: Vec<Test> = chain.iter().map(|&at| nodes[at].test).collect();
        tests.sort_by_key(|test| (layout.order(test.offset), test.mask, test.value));
        for (&at, test) in chain.iter().zip(tests) {
            nodes[at].test = test;
        }
    }
}

/// The outcome of a test, as far as the outcome of another test determines it.
///
/// `known` is a length that every packet at `seen` has. `None`: nothing.
pub(crate) fn implied(seen: &Test, outcome: bool, known: u32, test: &Test) -> Option<bool> {
    if seen.offset != test.offset {
        return None;
    }
    let both = seen.mask & test.mask;
    let answer = if outcome {
        if both != test.mask {
            return None;
        }
        seen.value & both == test.value
    } else if seen.mask == test.mask && seen.is_single_bit() && seen.value != test.value {
        true
    } else if both == seen.mask && test.value & both == seen.value {
        false
    } else {
        return None;
    };
    let (seen_needs, test_needs) = (seen.required_length(), test.required_length());
    // The packet may reach as far as `seen` needs and no further.
    if test_needs > seen_needs.max(known) && test.short != answer {
        return None;
    }
    // The packet may have been too short for `seen`; then it has to be too short for `test` as well.
    if seen.short == outcome && seen_needs > known && (test_needs < seen_needs || test.short != answer) {
        return None;
    }
    Some(answer)
}

/// A fact: the number of a test (equal tests have equal numbers) times two, plus its outcome.
type Fact = u32;

/// Adds a fact to a path, or finds that the path cannot be taken.
fn extend(path: &[Fact], fact: Fact) -> Option<Vec<Fact>> {
    if path.contains(&(fact ^ 1)) {
        return None;
    }
    let mut longer: Vec<Fact> = path.iter().copied().filter(|&old| old != fact).collect();
    if longer.len() >= MAX_FACTS {
        // A test that held gives more information than one that failed.
        let oldest_no = longer.iter().position(|fact| fact & 1 == 0).unwrap_or(0);
        longer.remove(oldest_no);
    }
    longer.push(fact);
    Some(longer)
}

/// The paths on which a test can be reached: every packet there satisfies all facts of at least one path.
#[derive(Clone, Default)]
struct Arrivals {
    paths: Vec<Vec<Fact>>,
    collapsed: bool,
    edges: Vec<(u32, u8)>,
}

impl Arrivals {
    fn add(&mut self, path: Vec<Fact>) {
        self.paths.push(path);
        if self.collapsed || self.paths.len() > MAX_PATHS {
            let mut paths = std::mem::take(&mut self.paths).into_iter();
            let mut common = paths.next().unwrap_or_default();
            for path in paths {
                common.retain(|fact| path.contains(fact));
            }
            self.paths.push(common);
            self.collapsed = true;
        }
    }
}

/// Lets every edge skip the tests whose answer is known on all paths to it.
fn skip_known(graph: &mut Graph, layout: Layout, budget: &mut Budget) {
    let Target::Step(entry) = graph.entry else { return };
    let count = graph.nodes.len();
    let known = known_lengths(graph, layout);
    let mut numbers: HashMap<Test, u32> = HashMap::with_capacity(count);
    let mut shortest: Vec<u32> = known.clone();
    let mut number = Vec::with_capacity(count);
    for (at, node) in graph.nodes.iter().enumerate() {
        let id = *numbers.entry(node.test).or_insert(at as u32);
        shortest[id as usize] = shortest[id as usize].min(known[at]);
        number.push(id);
    }
    let mut arrivals: Vec<Arrivals> = vec![Arrivals::default(); count];
    arrivals[entry as usize].add(Vec::new());
    let mut walks: Vec<Vec<Target>> = Vec::new();
    for at in 0..count {
        let here = std::mem::take(&mut arrivals[at]);
        if here.paths.is_empty() {
            graph.nodes[at].next = [Target::Drop; 2];
            continue;
        }
        if let Some(outcome) = settled(&here.paths, number[at]) {
            let to = graph.nodes[at].next[usize::from(outcome)];
            graph.nodes[at].next = [Target::Drop; 2];
            for &(from, branch) in &here.edges {
                graph.nodes[from as usize].next[usize::from(branch)] = to;
            }
            if here.edges.is_empty() {
                graph.entry = to;
            }
            if let Target::Step(to) = to {
                here.paths.into_iter().for_each(|path| arrivals[to as usize].add(path));
                arrivals[to as usize].edges.extend(here.edges);
            }
            continue;
        }
        let mut branches: [Vec<Vec<Fact>>; 2] = Default::default();
        for (branch, longer) in branches.iter_mut().enumerate() {
            let fact = number[at] * 2 + branch as u32;
            longer.extend(here.paths.iter().filter_map(|path| extend(path, fact)));
            walks.clear();
            for path in longer.iter() {
                walks.push(walk(graph, graph.nodes[at].next[branch], path, &shortest, budget));
            }
            if let Some(to) = last_common(&walks) {
                graph.nodes[at].next[branch] = to;
            }
        }
        let next = graph.nodes[at].next;
        if next[0] == next[1] {
            // The test decides nothing, so nothing is learned from it.
            branches = [here.paths, Vec::new()];
        }
        for (branch, paths) in branches.into_iter().enumerate() {
            if let Target::Step(to) = next[branch] {
                arrivals[to as usize].edges.push((at as u32, branch as u8));
                paths.into_iter().for_each(|path| arrivals[to as usize].add(path));
            }
        }
    }
}

/// For each test, a length (within its own part of the packet) that every packet reaching it has.
fn known_lengths(graph: &Graph, layout: Layout) -> Vec<u32> {
    const UNREACHED: [u32; 3] = [u32::MAX; 3];
    let mut known = vec![UNREACHED; graph.nodes.len()];
    if let Target::Step(entry) = graph.entry {
        known[entry as usize] = [0; 3];
    }
    for (at, node) in graph.nodes.iter().enumerate() {
        for (branch, target) in node.next.iter().enumerate() {
            if let Target::Step(to) = *target {
                let mut length = known[at];
                if node.test.short != (branch == 1) {
                    let region = layout.region(node.test.offset);
                    length[region] = length[region].max(node.test.required_length());
                }
                for (old, new) in known[to as usize].iter_mut().zip(length) {
                    *old = (*old).min(new);
                }
            }
        }
    }
    graph.nodes.iter().zip(known).map(|(node, known)| known[layout.region(node.test.offset)]).collect()
}

/// The outcome of a test when every path has it among its facts.
fn settled(paths: &[Vec<Fact>], number: u32) -> Option<bool> {
    let mut outcomes =
        paths.iter().map(|path| path.iter().rev().find(|fact| *fact / 2 == number).map(|fact| fact & 1));
    let first = outcomes.next()??;
    outcomes.all(|outcome| outcome == Some(first)).then_some(first == 1)
}

/// The tests that a packet with these facts passes, starting at `from`, as far as its path is known.
fn walk(graph: &Graph, from: Target, path: &[Fact], known: &[u32], budget: &mut Budget) -> Vec<Target> {
    let mut stations = vec![from];
    let mut at = from;
    while let Target::Step(step) = at {
        let node = &graph.nodes[step as usize];
        if budget.0 < path.len() as u64 {
            break;
        }
        budget.0 -= path.len() as u64;
        let answer = path.iter().rev().find_map(|fact| {
            let seen = (fact / 2) as usize;
            implied(&graph.nodes[seen].test, fact & 1 == 1, known[seen], &node.test)
        });
        match answer {
            Some(answer) => at = node.next[usize::from(answer)],
            None => break,
        }
        stations.push(at);
    }
    stations
}

/// The last test or answer that all paths reach.
fn last_common(walks: &[Vec<Target>]) -> Option<Target> {
    let (first, others) = walks.split_first()?;
    let end = *first.last()?;
    if others.iter().all(|walk| walk.last() == Some(&end)) {
        return Some(end);
    }
    // Tests are in ascending order, and an answer is always last.
    let key = |target: &Target| match target {
        Target::Step(step) => *step,
        _ => u32::MAX,
    };
    let steps = first.iter().rev().filter(|target| matches!(target, Target::Step(_)));
    steps
        .copied()
        .find(|target| others.iter().all(|walk| walk.binary_search_by_key(&key(target), key).is_ok()))
}

fn compatible(a: &Test, b: &Test) -> bool {
    a.offset == b.offset && (a.value ^ b.value) & a.mask & b.mask == 0
}

/// Merges tests of the same word: `x and y` into one wider comparison, `x or y` into one that ignores a bit.
///
/// Where both answer "yes" for a short packet, a packet that ends inside the word is judged by the
/// wider comparison. Click does the same.
fn merge_words(graph: &mut Graph, budget: &mut Budget) {
    let nodes = &mut graph.nodes;
    for at in (0..nodes.len()).rev() {
        while budget.0 > 0 {
            budget.0 -= 1;
            if let Target::Step(no) = nodes[at].next[0] {
                let other = nodes[no as usize];
                if compatible(&other.test, &nodes[at].test) && nodes[at].test.is_single_bit() {
                    nodes[at].flip();
                } else if let Some(wider) = either(&nodes[at], &other) {
                    nodes[at].test = wider;
                    nodes[at].next[0] = other.next[0];
                    continue;
                }
            }
            let Target::Step(yes) = nodes[at].next[1] else { break };
            let no = nodes[at].next[0];
            let other = &mut nodes[yes as usize];
            if no == other.next[1] && other.test.is_single_bit() {
                other.flip();
            }
            let (this, other) = (nodes[at], nodes[yes as usize]);
            if no != other.next[0] || !compatible(&this.test, &other.test) {
                break;
            }
            if this.test.short != other.test.short
                && this.test.required_length() != other.test.required_length()
            {
                break;
            }
            nodes[at].test.mask |= other.test.mask;
            nodes[at].test.value |= other.test.value;
            nodes[at].test.short &= other.test.short;
            nodes[at].next[1] = other.next[1];
        }
    }
}

/// The test that holds where either of two tests that differ in one bit does.
fn either(this: &Node, other: &Node) -> Option<Test> {
    let bit = this.test.value ^ other.test.value;
    if this.test.offset == 0
        || this.test.offset != other.test.offset
        || this.test.mask != other.test.mask
        || this.next[1] != other.next[1]
        || (!this.test.short && other.test.short)
        || !bit.is_power_of_two()
    {
        return None;
    }
    let wider = Test { mask: this.test.mask & !bit, value: this.test.value & !bit, ..this.test };
    (wider.required_length() == this.test.required_length()).then_some(wider)
}

/// Removes tests that decide nothing or are never reached, and renumbers the rest.
pub(crate) fn sweep(graph: &mut Graph) {
    let count = graph.nodes.len();
    let mut instead: Vec<Target> = Vec::with_capacity(count);
    instead.resize(count, Target::Fail);
    let skip = |instead: &[Target], target| match target {
        Target::Step(step) => instead[step as usize],
        target => target,
    };
    for at in (0..count).rev() {
        let next = graph.nodes[at].next.map(|target| skip(&instead, target));
        graph.nodes[at].next = next;
        instead[at] = if next[0] == next[1] { next[0] } else { Target::Step(at as u32) };
    }
    graph.entry = skip(&instead, graph.entry);
    let mut reached = vec![false; count];
    if let Target::Step(entry) = graph.entry {
        reached[entry as usize] = true;
    }
    let mut place = vec![0; count];
    let mut kept = 0;
    for at in 0..count {
        if reached[at] {
            place[at] = kept;
            kept += 1;
            for target in graph.nodes[at].next {
                if let Target::Step(to) = target {
                    reached[to as usize] = true;
                }
            }
        }
    }
    let moved = |target| match target {
        Target::Step(step) => Target::Step(place[step as usize]),
        target => target,
    };
    let mut keep = reached.iter();
    graph.nodes.retain(|_| *keep.next().unwrap_or(&false));
    for node in &mut graph.nodes {
        node.next = node.next.map(moved);
    }
    graph.entry = moved(graph.entry);
}
