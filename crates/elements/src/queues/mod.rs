//! Queues, shapers and schedulers.

mod bandwidthmeter;
mod bandwidthratedsplitter;
mod bandwidthratedunqueue;
mod bandwidthshaper;
mod burster;
mod codel;
mod delayshaper;
mod delayunqueue;
mod drrsched;
pub(crate) mod engine;
mod frontdropqueue;
mod linkunqueue;
mod meter;
mod mixedqueue;
mod notifierqueue;
mod priosched;
mod queue;
mod quicknotequeue;
mod ratedsplitter;
mod ratedunqueue;
mod red;
mod replayunqueue;
mod roundrobinsched;
mod shaper;
mod simplequeue;
mod stridesched;
mod threadsafequeue;
mod timedunqueue;
mod timesortedsched;
mod unqueue;
mod unqueue2;

use runtime::{Registry, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(vector::<queue::Queue>());
    r.old_name("FullNoteQueue", "Queue");
    r.add(vector::<queue::Queue<simplequeue::Simple>>());
    r.add(vector::<queue::Queue<notifierqueue::Notifier>>());
    r.add(vector::<queue::Queue<quicknotequeue::Quick>>());
    r.add(vector::<queue::Queue<threadsafequeue::ThreadSafe>>());
    r.add(vector::<mixedqueue::MixedQueue>());
    r.add(vector::<frontdropqueue::FrontDropQueue>());
    r.add(vector::<unqueue::Unqueue>());
    r.add(vector::<unqueue2::Unqueue2>());
    r.add(vector::<replayunqueue::ReplayUnqueue>());
    r.add(vector::<ratedunqueue::RatedUnqueue>());
    r.add(vector::<ratedunqueue::RatedUnqueue<bandwidthratedunqueue::ByBytes>>());
    r.add(vector::<timedunqueue::TimedUnqueue>());
    r.add(vector::<timedunqueue::TimedUnqueue<burster::Eight>>());
    r.add(vector::<delayunqueue::DelayUnqueue>());
    r.add(vector::<linkunqueue::LinkUnqueue>());
    r.add(vector::<shaper::Shaper>());
    r.add(vector::<shaper::Shaper<bandwidthshaper::ByBytes>>());
    r.add(vector::<delayshaper::DelayShaper>());
    r.add(vector::<ratedsplitter::RatedSplitter>());
    r.add(vector::<ratedsplitter::RatedSplitter<bandwidthratedsplitter::ByBytes>>());
    r.add(vector::<bandwidthmeter::BandwidthMeter>());
    r.add(vector::<bandwidthmeter::BandwidthMeter<meter::ByPackets>>());
    r.add(vector::<codel::CoDel>());
    r.add(vector::<red::Red>());
    r.add(vector::<roundrobinsched::RoundRobinSched>());
    r.alias("SimpleRoundRobinSched", "RoundRobinSched");
    r.add(vector::<priosched::PrioSched>());
    r.alias("SimplePrioSched", "PrioSched");
    r.add(vector::<stridesched::StrideSched>());
    r.add(vector::<drrsched::DrrSched>());
    r.add(vector::<timesortedsched::TimeSortedSched>());
}
