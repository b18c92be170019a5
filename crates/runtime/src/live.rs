//! Determines which annotations of the packets on each connection are read downstream.

use crate::class::{Class, Registry};
use crate::facts::Fields;
use crate::ports::flows;
use lang::Config;

/// For each connection of a configuration, in order: the annotations that some element downstream may read
/// before they are set again. All others may have any value in the packets there.
///
/// It is computed from the declarations of the classes ([`crate::Element::READS`], [`crate::Element::SETS`],
/// [`crate::Element::FLOW`]), so it is never too small, and often too large: an element's arguments may make
/// it read less than its class declares. Downstream of an unknown class, all annotations count as read.
#[must_use]
pub fn live_annotations(config: &Config, registry: &Registry) -> Vec<Fields> {
    let classes: Vec<Option<&Class>> = config.elements.iter().map(|e| registry.get(&e.class)).collect();
    let mut from = vec![Vec::new(); classes.len()];
    let mut to = vec![Vec::new(); classes.len()];
    for (number, c) in config.connections.iter().enumerate() {
        from[c.from.element].push(number);
        to[c.to.element].push(number);
    }
    let mut live = vec![Fields::NONE; config.connections.len()];
    // An element is examined again when the set after it has grown; sets only grow.
    let mut waiting: Vec<usize> = (0..classes.len()).collect();
    while let Some(element) = waiting.pop() {
        for number in &to[element] {
            let input = config.connections[*number].to.port;
            let matters = match classes[element] {
                None => Fields::ANNOTATIONS,
                Some(class) => {
                    let behind = from[element].iter().map(|n| (config.connections[*n].from.port, live[*n]));
                    behind
                        .filter(|(output, _)| flows(class.flow, input, *output))
                        .map(|(output, live)| if output == 0 { live.without(class.sets) } else { live })
                        .fold(class.reads.only(Fields::ANNOTATIONS), Fields::with)
                }
            };
            if live[*number] != matters {
                live[*number] = matters;
                waiting.push(config.connections[*number].from.element);
            }
        }
    }
    live
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArgError, Args, Batch, ConfigCx, Cx, Element, Vector, vector};
    use lang::{LoadOptions, Source};

    /// An element that reads, sets and passes on the annotations that its number encodes.
    struct Made<const N: usize>;

    const NAMES: [&str; 6] = ["Source", "Sink", "Reads", "Sets", "Apart", "Unknown"];

    impl<const N: usize> Element for Made<N> {
        const CLASS: &'static str = NAMES[N];
        const PORTS: &'static str = "-/-";
        const FLOW: &'static str = if N == 4 { "#/#" } else { "x/x" };
        const READS: Fields = match N {
            2 => Fields::PAINT.with(Fields::DATA),
            5 => Fields::ALL,
            _ => Fields::NONE,
        };
        const WRITES: Fields = Fields::ALL;
        const SETS: Fields = if N == 3 { Fields::PAINT } else { Fields::NONE };
        const MANUAL: &'static str = "";
        fn configure(_: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
            Ok(Self)
        }
    }
    impl<const N: usize> Vector for Made<N> {
        fn push(&mut self, _: usize, batch: Batch, cx: &mut Cx<'_>) {
            cx.output_batch(0, batch);
        }
    }

    /// What is live on each connection, as text.
    fn live(text: &str) -> Vec<String> {
        let mut registry = Registry::new();
        registry.add(vector::<Made<0>>());
        registry.add(vector::<Made<1>>());
        registry.add(vector::<Made<2>>());
        registry.add(vector::<Made<3>>());
        registry.add(vector::<Made<4>>());
        registry.add(vector::<Made<5>>());
        let config = lang::load(&[Source::new("t", text)], &LoadOptions::default(), &registry).unwrap();
        let live = live_annotations(&config, &registry);
        let mut found: Vec<String> = (config.connections.iter().zip(live))
            .map(|(c, live)| {
                let name = |element: usize| &config.elements[element].name;
                format!("{}{}: {live}", name(c.from.element), name(c.to.element))
            })
            .collect();
        found.sort();
        found
    }

    #[test]
    fn what_is_read_matters_up_to_where_it_is_set() {
        assert_eq!(
            live("a :: Source -> b :: Sets -> c :: Reads -> d :: Sink;"),
            ["ab: nothing", "bc: paint", "cd: nothing"]
        );
        assert_eq!(
            live("a :: Source -> b :: Reads -> c :: Sets -> d :: Reads;"),
            ["ab: paint", "bc: nothing", "cd: paint"]
        );
    }

    #[test]
    fn by_other_outputs_packets_leave_with_what_they_had() {
        assert_eq!(
            live("a :: Source -> b :: Sets; b [0] -> c :: Reads; b [1] -> d :: Sink;"),
            ["ab: nothing", "bc: paint", "bd: nothing"]
        );
        assert_eq!(
            live("a :: Source -> b :: Sets; b [0] -> c :: Sink; b [1] -> d :: Reads;"),
            ["ab: paint", "bc: nothing", "bd: paint"]
        );
    }

    #[test]
    fn packets_go_where_the_flow_code_says() {
        assert_eq!(
            live("a :: Source -> b :: Apart; c :: Source -> [1] b; b [0] -> d :: Reads; b [1] -> e :: Sink;"),
            ["ab: paint", "bd: paint", "be: nothing", "cb: nothing"]
        );
    }

    #[test]
    fn a_cycle_is_gone_round_until_nothing_changes() {
        assert_eq!(
            live("a :: Source -> b :: Sink -> c :: Sink -> b; c [1] -> d :: Sink [1] -> e :: Reads;"),
            ["ab: paint", "bc: paint", "cb: paint", "cd: paint", "de: paint"]
        );
    }

    #[test]
    fn who_says_nothing_reads_everything() {
        assert_eq!(live("a :: Source -> b :: Unknown -> c :: Sink;"), ["ab: all", "bc: nothing"]);
    }
}
