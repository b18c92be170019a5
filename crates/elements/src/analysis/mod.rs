//! Analysis: aggregates and flows of packets, counts and rates of each, the times at which packets came.

mod aggregatecounter;
mod aggregatefilter;
mod aggregatefirst;
mod aggregateip;
mod aggregateipaddrpair;
mod aggregateipflows;
mod aggregatelast;
mod aggregatelength;
mod aggregatepacketcounter;
mod aggregatepaint;
mod cyclecountaccum;
mod engine;
mod ipratemonitor;
mod roundtripcyclecount;
mod setcyclecount;
mod timerange;

use runtime::{Registry, simple, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(vector::<aggregatecounter::AggregateCounter>());
    r.add(vector::<aggregatefilter::AggregateFilter>());
    r.add(simple::<aggregatefirst::AggregateFirst>());
    r.add(simple::<aggregateip::AggregateIp>());
    r.add(simple::<aggregateipaddrpair::AggregateIpAddrPair>());
    r.add(vector::<aggregateipflows::AggregateIpFlows>());
    r.add(vector::<aggregatelast::AggregateLast>());
    r.add(simple::<aggregatelength::AggregateLength>());
    r.add(vector::<aggregatepacketcounter::AggregatePacketCounter>());
    r.add(simple::<aggregatepaint::AggregatePaint>());
    r.add(vector::<cyclecountaccum::CycleCountAccum>());
    r.add(vector::<ipratemonitor::IpRateMonitor>());
    r.add(vector::<roundtripcyclecount::RoundTripCycleCount>());
    r.add(vector::<setcyclecount::SetCycleCount>());
    r.add(vector::<timerange::TimeRange>());
}
