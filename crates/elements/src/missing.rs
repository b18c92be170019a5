//! Classes of Click and FastClick that are not here, and why, so that an error about one says more than that.

use runtime::Registry;

/// Why, and the names.
const MISSING: &[(&str, &str)] = &[
    (
        "this class of Click is not in Valiant yet",
        "AdaptiveRED AddressTranslator AnonymizeIPAddr BalancedThreadSched CPUQueue ChangeUID CompareBlock \
         DevirtualizeInfo DiscardNoFree EtherPauseSource FastTCPFlows FastUDPFlows FastUDPSourceIP6 \
         FromCapDump FromDAGDump FromNLANRDump FromNetFlowSummaryDump FromRawSocket FromTcpdump \
         HandlerProxy IP6Classifier IPFlowRawSockets KernelFilter LookupIPRouteMP MSQueue \
         MergeByTimestamp PI PokeHandlers PrintOld ProgressBar ProtocolTranslator46 ProtocolTranslator64 RIPSend \
         RandomSource SnoopTCP SpinlockAcquire SpinlockInfo SpinlockRelease StatelessTCPResponder \
         StoreUDPTimeSeqRecord TCPIPSend ThreadMonitor ToIPFlowDumps ToRawSocket",
    ),
    (
        "IPsec is configured by IPsecSAD, ESPEncap and ESPDecap here",
        "IPsecAES IPsecAuthHMACSHA1 IPsecAuthSHA1 IPsecDES IPsecESPEncap IPsecESPUnencap IPsecEncap RadixIPsecLookup",
    ),
    (
        "this class of Click is for its kernel module only; LinuxRoutes keeps a table in step with the kernel's",
        "LinuxIPLookup LookupIPRouteLinux",
    ),
    (
        "this class of Click is for its kernel module only",
        "FromLinux ToHostSniffers ToLinux FromUserDevice ToUserDevice KernelHandlerProxy",
    ),
    (
        "netmap is not supported: FromDevice and ToDevice open Linux interfaces by AF_XDP, FromDPDKDevice and ToDPDKDevice NICs by DPDK",
        "FromNetmapDevice NetmapInfo ToNetmapDevice",
    ),
    (
        "DPDK's rings between processes are not supported: ports of two routers are connected by memif (net_memif)",
        "FromDPDKRing ToDPDKRing",
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
        assert!(say("Idle -> Discrad").contains("class 'Discard' has a similar name"));
    }
}
