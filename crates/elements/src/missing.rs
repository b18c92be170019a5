//! Classes of Click and FastClick that are not here, and why, so that an error about one says more than that.

use runtime::Registry;

/// Why, and the names.
const MISSING: &[(&str, &str)] = &[
    (
        "this class of Click is not in Valiant yet",
        "AdaptiveRED AnonymizeIPAddr BalancedThreadSched CPUQueue ChangeUID CompareBlock DevirtualizeInfo \
         DiscardNoFree EtherPauseSource FastTCPFlows FastUDPSourceIP6 FromCapDump FromDAGDump \
         FromNLANRDump FromNetFlowSummaryDump FromRawSocket FromTcpdump HandlerProxy IP6Classifier IPFlowRawSockets \
         KernelFilter MSQueue MergeByTimestamp PI PokeHandlers PrintOld ProgressBar RIPSend \
         RandomSource SnoopTCP SpinlockAcquire SpinlockInfo SpinlockRelease StatelessTCPResponder \
         StoreUDPTimeSeqRecord TCPIPSend ThreadMonitor ToIPFlowDumps ToRawSocket",
    ),
    (
        "IPsec is configured by IPsecSAD, ESPEncap and ESPDecap here",
        "IPsecAES IPsecAuthHMACSHA1 IPsecAuthSHA1 IPsecDES IPsecESPEncap IPsecESPUnencap IPsecEncap RadixIPsecLookup",
    ),
    (
        "this class of Click is for its kernel module only; LinuxRoutes keeps a table in step with the kernel's",
        "LookupIPRouteLinux",
    ),
    ("this class of Click is for its kernel module only", "FromUserDevice ToUserDevice"),
    ("this class of Click is for its kernel module only; FromDevice takes its place", "PollDevice"),
    ("this class of Click is not in Valiant yet; StaticIPLookup takes the same routes", "LookupIPRouteMP"),
    (
        "this class of Click reaches handlers of its kernel module, which Valiant does not have",
        "KernelHandlerProxy",
    ),
    (
        "this class of Click is for its kernel module only; under the name click, FromDevice leaves packets to the kernel by itself",
        "ToHostSniffers",
    ),
    ("the present name of this class is FromHost", "FromLinux"),
    ("the present name of this class is ToHost", "ToLinux"),
    ("the present name of this class is IP6NDSolicitor", "ARPQuerier6 NDSol"),
    ("the present name of this class is IP6NDAdvertiser", "ARPResponder6 NDAdv"),
    (
        "the present classes are ProtocolTranslator46, ProtocolTranslator64 and AddressTranslator",
        "ProtocolTranslator Nat624",
    ),
    ("the present classes are IPRewriter, TCPRewriter and UDPRewriter", "Rewriter"),
    ("the present name of this class is KernelTun", "Tun"),
    ("the present class is FromDevice, with METHOD PCAP", "FromBPF"),
    (
        "this class of FastClick is not in Valiant yet: every element runs on the worker that its packet is on, and queues \
         that several workers use synchronize themselves",
        "Pipeliner PathSpinlock",
    ),
    (
        "this class of FastClick is not in Valiant yet",
        "MultiReplayUnqueue AggregateCounterVector DeviceBalancer CTXManager CTXDispatcher FlowManager FlowDispatcher \
         FlowIPManager FlowIPManagerIMP IPIn IPOut TCPIn TCPOut HTTPIn HTTPOut WordMatcher TCPReorder TCPRetransmitter \
         InsultRemover Metron HTTPServer TSCClock JiffieClock GTPEncap GTPDecap Duplicate Replay EnsureHeadroom FlowCounter",
    ),
    (
        "netmap is not supported: FromDevice and ToDevice open Linux interfaces by AF_XDP, FromDPDKDevice and ToDPDKDevice NICs by DPDK",
        "FromNetmapDevice NetmapInfo ToNetmapDevice",
    ),
    (
        "this class of Click is for wireless networks, which are out of Valiant's scope",
        "AssociationRequester AssociationResponder AuthRequester AuthResponder AutoRateFallback AvailableRates \
         BeaconScanner BeaconSource BeaconTracker ExtraDecap ExtraEncap FilterFailures FilterPhyErr FilterRX FilterTX \
         MadwifiRate OpenAuthRequester OpenAuthResponder Print80211 PrintAiro PrintTXFeedback PrintWifi PrismaticDecap \
         Prism2Decap Prism2Encap ProbeRequester ProbeResponder ProbeTXRate RXStats RadiotapDecap RadiotapEncap SendPattern \
         SetChannel SetRTS SetTXPower SetTXRate WifiDecap WifiDefrag WifiDupeFilter WifiEncap WifiFragment WirelessInfo",
    ),
    (
        "this class of Click is for the Grid research network, which is out of Valiant's scope",
        "FilterByGridHdr FloodingLocQuerier GridGatewayInfo GridHeaderInfo GridLocationInfo GridNodeInfo GridProbeHandler \
         GridProbeSender GridTxError LocQueryResponder LookupLocalGridRoute SendGridHello SetGridChecksum SimpleLocQuerier",
    ),
    (
        "this class of Click is not in Valiant yet",
        "DebugBridge FlowInfo IPFieldInfo Null1 Null2 Null3 Null4 Null5 Null6 Null7 Null8 RFC2507Comp \
         RFC2507Decomp SortedTaskSched SpinlockPush StrideSwitch UMLSwitch",
    ),
    (
        "this class tests Click itself",
        "BigHashMapTest BigintTest BitvectorTest CLPTest CheckPacket ComparePackets \
         ConfParseTest CryptoTest DequeTest ErrorTest FunctionTest HandlerTask HashTableTest HeapTest \
         JSONTest ListTest MTDieTest NeighborhoodTest NotifierDebug NotifierTest NullTask PacketTest \
         QueueThreadTest1 QueueThreadTest2 QueueYankTest SchedOrderTest SortTest TaskThreadTest TimerTest \
         TokenBucketTest UpstreamNotifier VectorTest",
    ),
    (
        "this class of Click is an experiment of its authors (elements/local), which is out of Valiant's scope",
        "BufferConverter CopyFlowID CopyTCPSeq DupPath Reframe RoundRobinUnqueue TCPAck TCPBuffer TCPConn \
         TCPDemux TCPReflector ToyTCP WebGen",
    ),
    (
        "this class of Click is for radio modems, which are out of Valiant's scope",
        "B8B10 BIM CheckPattern Scramble",
    ),
    (
        "this class of Click is for wireless networks, which are out of Valiant's scope",
        "AthdescDecap AthdescEncap EtherCount FromHandler LinkTable PacketStore PushAnno ReadAnno \
         SetTXRateHT StationTable WepDecap WepEncap WifiSeq",
    ),
    (
        "this class of Click is for the Grid research network, which is out of Valiant's scope",
        "ACKResponder ACKResponder2 ACKRetrySender ACKRetrySender2 AiroInfo BottleneckMetric CheckGridHeader \
         DSDVRouteTable DSRArpTable DSRRouteTable E2ELossMetric ETX2Metric ETXMetric EstimateRouterRegion \
         FilterByGridHops FilterByRange FixDstLoc FixSrcLoc GridEncap GridLocationInfo2 GridLogger \
         GridProbeReplyReceiver GridProxy GridRouteTable GridSRForwarder HopcountMetric IncrementSeqNo \
         LIRMetric LinkStat LinkTestReceiver LinkTester LinkTracker LocFromFile LocationTable \
         LookupGeographicGridRoute LookupLocalGridRoute2 MovementSimulator PEP PacketLogger PacketLogger2 \
         PingPong PrintGrid RadioSim SendGridLRHello StripDSRHeader ThresholdMetric UnstripDSRHeader \
         UpdateGridRoutes YarvisMetric",
    ),
    ("IPsec is configured by IPsecSAD, ESPEncap and ESPDecap here", "SATable"),
    (
        "Click has no class for GRE (RFC 2784): its header is made by Unstrip(4), StoreData and IPEncap with protocol 47, and \
         taken off by StripIPHeader and Strip, as in conf/published/gre-tunnel.click",
        "GREEncap GREDecap GREUnencap CheckGREHeader EtherGREEncap EtherGREDecap MarkGREHeader NVGREEncap NVGREDecap \
         StripGREHeader StripGRE UnstripGREHeader",
    ),
];

/// Tells the registry.
pub(crate) fn register(r: &mut Registry) {
    for (why, names) in MISSING {
        names.split_whitespace().for_each(|name| r.lacks(name, why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lang::ClassTable;

    #[test]
    fn what_is_here_is_not_called_missing() {
        let registry = crate::registry();
        let mut seen = std::collections::HashSet::new();
        for name in MISSING.iter().flat_map(|(_, names)| names.split_whitespace()) {
            assert!(registry.get(name).is_none(), "{name} is here");
            assert!(seen.insert(name), "{name} is twice in the list");
            assert!(registry.why_missing(name).is_some(), "{name}");
        }
        assert!(registry.why_missing("Counter").is_none() && registry.why_missing("Nonsense").is_none());
    }

    #[test]
    fn an_error_says_why_a_class_is_missing() {
        let say = |config: &str| {
            let sources = [lang::Source::new("f", config)];
            let diags =
                lang::load(&sources, &lang::LoadOptions::default(), &crate::registry()).err().unwrap();
            diags.render(diags.sources(), false)
        };
        assert!(say("Idle -> PI -> Discard").contains("not in Valiant yet"));
        assert!(say("w :: WifiEncap(1); Idle -> w -> Discard").contains("out of Valiant's scope"));
        assert!(say("Idle -> GREEncap(10.0.0.1, 10.0.0.2) -> Discard").contains("IPEncap with protocol 47"));
        assert!(say("PollDevice(eth0) -> Discard").contains("FromDevice takes its place"));
        assert!(say("Idle -> Discrad").contains("class 'Discard' has a similar name"));
    }
}
