//! The manuals, over the whole library: every element has one, it is complete, and its example starts.

#[path = "../../../tests/skip.rs"]
mod skip;

use lang::{LoadOptions, Source};
use runtime::{Class, Options, Registry, Router};
use std::path::Path;
use std::sync::Arc;

/// The headings that every manual has, in this order; others may stand between them.
const HEADINGS: [&str; 5] = ["## Synopsis", "## Ports", "## Threads", "## Example", "## See also"];

fn examples(manual: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut inside: Option<String> = None;
    for line in manual.lines() {
        match (&mut inside, line.trim_start()) {
            (None, "```click") => inside = Some(String::new()),
            (Some(_), "```") => all.extend(inside.take()),
            (Some(text), _) => {
                text.push_str(line);
                text.push('\n');
            }
            _ => {}
        }
    }
    all
}

/// A text's words in backquotes.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn section<'a>(manual: &'a str, heading: &str) -> &'a str {
    manual.split(heading).nth(1).map_or("", |rest| rest.split("\n## ").next().unwrap_or(""))
}

fn problems(registry: &Registry, class: &Class) -> Vec<String> {
    let (name, manual) = (class.name, &class.manual()[..]);
    let mut wrong = Vec::new();
    if !manual.starts_with("# ") {
        wrong.push(format!("{name}: the manual does not begin with '# {name}'"));
    }
    let mut at = 0;
    for heading in HEADINGS {
        match manual[at..].find(&format!("\n{heading}\n")) {
            Some(found) => at += found,
            None => wrong.push(format!("{name}: no '{heading}' after the headings before it")),
        }
    }
    let handlers = section(manual, "## Handlers");
    // "Those of CLASS": the manual of that class documents them.
    let refers =
        handlers.trim().strip_prefix("Those of ").and_then(|rest| rest.split(['.', ',', ' ']).next());
    let documented = quoted(handlers);
    for handler in class.handlers.iter().filter(|_| refers.is_none_or(|class| registry.get(class).is_none()))
    {
        let is_documented = match handler.name {
            // It stands for those that depend on the configuration: here are more than the class declares.
            "*" => documented.iter().any(|name| class.handlers.iter().all(|h| h.name != *name)),
            name => documented.contains(&name) || numbered(&documented, name),
        };
        if !is_documented {
            wrong.push(format!("{name}: handler '{}' is not documented", handler.name));
        }
    }
    let explained = reasons(section(manual, "## Drop reasons"));
    if class.drops.iter().map(|case| case.reason.text()).ne(explained.iter().copied()) {
        wrong.push(format!("{name}: it drops for {:?}, and the manual says {explained:?}", class.drops));
    }
    if manual.matches("Drop reasons").count() > 1 {
        wrong.push(format!("{name}: the drop reasons are written by hand"));
    }
    if examples(manual).is_empty() {
        wrong.push(format!("{name}: no example"));
    }
    wrong
}

/// The reasons that a list explains: one in each item, with its cause.
fn reasons(section: &str) -> Vec<&str> {
    let items = section.lines().filter_map(|line| line.strip_prefix("- `"));
    items.filter_map(|item| item.split_once("`: ").map(|(reason, _)| reason)).collect()
}

/// Whether a numbered handler (`pattern3`) is documented by another of its numbers (`pattern0`, `patternN`).
fn numbered(documented: &[&str], name: &str) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let kind = |d: &&str| d.strip_prefix(stem).is_some_and(|n| n == "N" || n == "0" || n == "1");
    stem != name && documented.iter().any(kind)
}

#[test]
fn every_manual_is_complete() {
    let registry = elements::registry();
    let wrong: Vec<String> = registry.iter().flat_map(|c| problems(&registry, c)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn see_also_names_elements() {
    let registry = elements::registry();
    let mut wrong = Vec::new();
    for class in registry.iter() {
        let manual = class.manual();
        let text = section(&manual, "## See also");
        let names =
            text.split([',', '\n']).map(|w| w.trim().trim_matches(['`', '.'])).filter(|w| !w.is_empty());
        wrong.extend(
            names.filter(|n| registry.get(n).is_none()).map(|n| format!("{}: see also '{n}'", class.name)),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A capture file with one packet, for the examples that read one.
fn write_samples(dir: &Path) {
    let mut pcap = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1, 1, 0, 60, 60] {
        pcap.extend_from_slice(&word.to_le_bytes());
    }
    pcap.resize(pcap.len() + 60, 0);
    std::fs::write(dir.join("in.pcap"), pcap).unwrap();
    std::fs::write(
        dir.join("in.dump"),
        "!IPSummaryDump 1.3\n!data timestamp ip_src ip_dst\n1.0 10.0.0.1 10.0.0.2\n",
    )
    .unwrap();
}

#[test]
fn every_example_starts() {
    let registry = Arc::new(elements::registry());
    let dir = std::env::temp_dir().join(format!("valiant-examples-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    write_samples(&dir);
    std::env::set_current_dir(&dir).unwrap();
    let interfaces_allowed =
        dpdk::probe::Machine::probe().rights.net_admin && Path::new("/dev/net/tun").exists();
    let (mut wrong, mut started) = (Vec::new(), 0);
    for class in registry.iter() {
        for example in examples(&class.manual()) {
            let makes_interface =
                ["KernelTap", "KernelTun", "FromHost", "ToHost"].iter().any(|c| example.contains(c));
            let check_only = makes_interface && !interfaces_allowed;
            if check_only {
                skip::skip(&format!(
                    "{} is only checked: making an interface needs CAP_NET_ADMIN and /dev/net/tun",
                    class.name
                ));
            }
            let options = Options { simulated_time: true, hotswap: true, check_only, ..Options::default() };
            let sources = [Source::new(class.name, example)];
            match Router::new(&sources, LoadOptions::default(), Arc::clone(&registry), options) {
                Ok(_) => started += 1,
                Err(diags) => wrong.push(format!("{}:\n{}", class.name, diags.render_plain(diags.sources()))),
            }
        }
    }
    std::env::set_current_dir("/").unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(started >= registry.iter().count());
}

/// The elements that a configuration written for Click's main path expects.
const EXPECTED: &str = "FromDevice ToDevice FromDPDKDevice ToDPDKDevice FromHost ToHost KernelTap KernelTun Socket FromSocket ToSocket RawSocket McastSocket EtherSpanTree FromDump ToDump \
FromIPSummaryDump ToIPSummaryDump InfiniteSource RatedSource TimedSource TimedSink FastUDPFlows FastUDPSource Discard Idle \
Tee PullTee Switch PullSwitch StaticSwitch StaticPullSwitch RoundRobinSwitch RandomSwitch HashSwitch InputSwitch Paint \
PaintTee PaintSwitch CheckPaint Null Bypass Hub Suppressor Block RandomSample Counter AverageCounter Print Strip Unstrip Align \
AlignmentInfo Truncate Pad Resize Clipboard SetTimestamp SetTimestampDelta Message RandomSeed BlockThread LinuxIPLookup \
Queue SimpleQueue ThreadSafeQueue NotifierQueue FullNoteQueue QuickNoteQueue MixedQueue FrontDropQueue RED Unqueue RatedUnqueue \
BandwidthRatedUnqueue TimedUnqueue Burster DelayUnqueue LinkUnqueue Shaper BandwidthShaper DelayShaper RatedSplitter BandwidthRatedSplitter Meter \
RoundRobinSched PrioSched StrideSched DRRSched TimeSortedSched Classifier IPClassifier IPFilter \
EtherEncap EtherRewrite EtherMirror StoreEtherAddress HostEtherFilter DropBroadcasts MarkMACHeader ARPQuerier ARPResponder ARPTable \
ARPPrint VLANEncap VLANDecap EtherVLANEncap StripEtherVLANHeader SetVLANAnno \
CheckIPHeader MarkIPHeader StripIPHeader UnstripIPHeader StripToNetworkHeader DecIPTTL GetIPAddress SetIPAddress StoreIPAddress \
IPGWOptions FixIPSrc IPFragmenter IPReassembler IPMirror IPEncap SetIPChecksum SetIPDSCP MarkIPCE IPPrint IPInputCombo IPOutputCombo \
StaticIPLookup LinearIPLookup RadixIPLookup DirectIPLookup RangeIPLookup SortedIPLookup LookupIPRoute \
IPRewriter TCPRewriter UDPRewriter ICMPPingRewriter ICMPRewriter IPAddrRewriter IPAddrPairRewriter IPRewriterPatterns \
RoundRobinIPMapper SourceIPHashMapper FTPPortMapper \
CheckIP6Header MarkIP6Header GetIP6Address SetIP6Address StoreIP6Address SetIP6DSCP SetIP6ECN SetIP6FlowLabel SetIP6Hlim DecIP6HLIM \
IP6Mirror AddressTranslator IP6RAdvertiser NAT64 ProtocolTranslator46 ProtocolTranslator64 IP6Print IP6Encap UDPIP6Encap IP6Fragmenter ICMP6Error LookupIP6Route IP6NDSolicitor IP6NDAdvertiser \
ICMPError ICMPPingResponder ICMPPingSource ICMPPingEncap ICMPSendPings CheckICMPHeader CheckTCPHeader CheckUDPHeader SetTCPChecksum \
SetUDPChecksum UDPIPEncap ControlSocket ChatterSocket Script DriverManager ScheduleInfo StaticThreadSched AddressInfo PortInfo IPNameInfo \
AggregateIP AggregateLength AggregatePaint AggregateFirst AggregateLast AggregateFilter AggregateCounter AggregateIPFlows AggregateIPAddrPair AggregatePacketCounter \
IPRateMonitor TimeRange SetCycleCount CycleCountAccum RoundTripCycleCount EtherSwitch ListenEtherSwitch GetEtherAddress SetEtherAddress \
EnsureEther ARPFaker DynamicUDPIPEncap TCPFragmenter TruncateIPPayload EraseIPPayload CPUSwitch AnnotationInfo QuitWatcher \
CheckLength CheckARPHeader SetIPECN ICMPIPEncap StripTCPHeader UnstripTCPHeader Unqueue2 CoDel TimeFilter \
AdjustTimestamp StoreTimestamp ForceIP ForceTCP ForceUDP ForceICMP RandomBitErrors SetAnnoByte StoreAnno CheckCRC32 SetCRC32 \
ResetIPChecksum NumberPacket CheckNumberPacket RecordTimestamp TimestampDiff TimestampAccum HandlerAggregate CounterMP CounterAtomic \
AverageCounterMP AverageCounterIMP ReplayUnqueue ClickyInfo DPDKInfo EnsureDPDKBuffer SetPacketType FromDPDKRing ToDPDKRing";

#[test]
fn nothing_is_missing() {
    let registry = elements::registry();
    let missing: Vec<&str> = EXPECTED.split_whitespace().filter(|n| registry.get(n).is_none()).collect();
    assert!(missing.is_empty(), "missing: {}", missing.join(" "));
}
