//! Which elements get other arguments while the router runs: those whose `can_live_reconfigure` says so in
//! Click.

/// Of Click's classes that are here.
const OF_CLICK: &str = "
    ARPQuerier ARPResponder ARPTable
    BandwidthRatedSplitter BandwidthRatedUnqueue BandwidthShaper
    Classifier Clipboard CoDel
    EtherEncap EtherRewrite EtherVLANEncap EtherVlanEncap
    FrontDropQueue FullNoteQueue
    GetEtherAddress
    HostEtherFilter
    ICMPError InfiniteSource InputSwitch IP6Encap IPClassifier IPEncap IPFilter
    MarkMACHeader MixedQueue
    NotifierQueue
    Pad Paint Print PullSwitch
    Queue QuickNoteQueue
    RandomBitErrors RandomSample RatedSource RatedSplitter RatedUnqueue RED
    Resize
    SetAnnoByte SetEtherAddress SetIP6DSCP SetIP6ECN SetIP6FlowLabel SetIP6Hlim SetIPAddress SetIPDSCP SetIPECN
    SetPacketType SetVLANAnno SetVlanAnno Shaper SimplePullSwitch SimpleQueue Switch
    TCPFragmenter ThreadSafeQueue Truncate
    UDPIP6Encap UDPIPEncap
";

/// Whether `config` can be written: by the runtime, which makes the element anew, or by the class itself.
fn live(class: &runtime::Class) -> bool {
    class.live || class.handlers.iter().any(|handler| handler.name == "config" && handler.writable())
}

#[test]
fn those_of_click_can_be_reconfigured_and_no_others_of_its_classes() {
    let registry = elements::registry();
    let wanted: Vec<&str> = OF_CLICK.split_whitespace().collect();
    for name in &wanted {
        let class = registry.get(name).unwrap_or_else(|| panic!("{name} is not here"));
        assert!(live(class), "{name} cannot be reconfigured");
    }
    let names = include_str!("click-classes.txt").lines().filter(|line| !line.starts_with('#'));
    let names = names.flat_map(|line| line.split_whitespace().skip(1));
    let others: Vec<&str> =
        names.filter(|name| registry.get(name).is_some_and(live) && !wanted.contains(name)).collect();
    assert!(others.is_empty(), "Click cannot reconfigure these: {}", others.join(" "));
}
