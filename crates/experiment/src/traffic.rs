//! What `valiant gen` would refuse, before anything is measured.

use crate::model::Settings;
use measure::EtherAddr;
use measure::direction::Direction;
use measure::flows::{FlowSpec, Set, addresses, default_addresses};
use measure::frame::Family;
use measure::matrix::Wanted;
use measure::sizes::Sizes;
use measure::tag::MAX_FLOWS;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// The addresses that a value names: themselves, or those in a file.
pub(crate) fn listed(value: &str, dir: &Path) -> Result<String, String> {
    match value.strip_prefix('@') {
        None => Ok(value.to_owned()),
        Some(path) => std::fs::read_to_string(dir.join(path))
            .map_err(|e| format!("{}: {}", dir.join(path).display(), launch::reason(&e))),
    }
}

/// The matrix that a value names; a file is found from `dir`.
pub(crate) fn wanted(value: &str, dir: &Path) -> Result<Wanted, String> {
    let read = |path: &str| launch::read_text(&dir.join(path));
    Wanted::load(value, read).map_err(|bad| bad.0)
}

fn no_mac(value: &str) -> Option<String> {
    let bad = || format!("'{value}' is no Ethernet address such as 02:00:00:00:00:02");
    value.parse::<EtherAddr>().is_err().then(bad)
}

/// What is wrong with one value, whatever the others are.
pub(crate) fn fault(name: &str, value: &str, dir: &Path) -> Option<String> {
    let number = |least: u64, most: u64| match value.parse::<u64>() {
        Ok(n) if (least..=most).contains(&n) => None,
        _ => Some(format!("'{value}' is no number from {least} to {most}")),
    };
    match name {
        "size" => Sizes::parse(value).err().map(|bad| bad.0),
        "sport" | "dport" => Set::ports(value).err().map(|bad| bad.0),
        "src" | "dst" => listed(value, dir)
            .and_then(|text| {
                let (of_four, of_six) =
                    (Set::addresses::<Ipv4Addr>(&text), Set::addresses::<Ipv6Addr>(&text));
                of_six.or(of_four).map_err(|bad| bad.0)
            })
            .err(),
        "src-mac" => no_mac(value),
        // One for all ports, or one for each.
        "dst-mac" => value.split(',').find_map(no_mac),
        "matrix" => wanted(value, dir).err(),
        "direction" => Direction::parse(value).err().map(|bad| bad.0),
        "skew" => measure::zipf::skew(value).err().map(|bad| bad.0),
        "flows" => number(1, MAX_FLOWS.into()),
        "ttl" => number(1, 255),
        "seed" => number(0, u64::MAX),
        "ipv6" | "random" => {
            (!matches!(value, "true" | "false")).then(|| format!("'{value}' is neither true nor false"))
        }
        _ => None,
    }
}

/// What is wrong with settings together, each of which is right by itself.
///
/// With `outputs`, destinations and the flows to each are looked at elsewhere.
pub(crate) fn fault_together(settings: &Settings, outputs: bool, dir: &Path) -> Option<String> {
    let of = |name: &str| settings.get(name).map(String::as_str);
    let six = of("ipv6") == Some("true");
    let (shortest, version, usual) = if six {
        (<Ipv6Addr as Family>::SHORTEST, "IPv6", "80")
    } else {
        (<Ipv4Addr as Family>::SHORTEST, "IPv4", "60")
    };
    let default = default_addresses(six);
    let named = |name: &str, bad: measure::Bad| {
        let bad = bad
            .0
            .replace("with IPV6 true", "with ipv6 = true")
            .replace("without IPV6 true", "without ipv6 = true");
        format!("{name}: {bad}")
    };
    let check = || {
        let sizes =
            Sizes::parse(of("size").unwrap_or(usual)).and_then(|sizes| sizes.at_least(shortest, version));
        sizes.map_err(|bad| named("size", bad))?;
        let set = |name: &str, default: &str| {
            let text = listed(of(name).unwrap_or(default), dir).map_err(|bad| format!("{name}: {bad}"))?;
            addresses(&text, six).map_err(|bad| named(name, bad))
        };
        let ports = |name: &str| of(name).map(Set::ports).transpose().map_err(|bad| named(name, bad));
        let spec = FlowSpec {
            src: set("src", default.0)?,
            dst: set("dst", default.1)?,
            sport: ports("sport")?,
            dport: ports("dport")?,
            random: of("random") == Some("true"),
            unique: false,
            seed: 1,
            flows: of("flows").filter(|_| !outputs).and_then(|n| n.parse().ok()),
        };
        spec.count().map_err(|bad| named("flows", bad))
    };
    check().err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_generator_refuses_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("list"), "10.0.0.0/24\n").unwrap();
        for (name, good, bad) in [
            ("size", "60-1514", "10"),
            ("size", "imix", "60:x"),
            ("src", "10.0.0.1,10.1.0.0/16", "10.0.0.300"),
            ("dst", "2001:db8::/64", "nowhere"),
            ("dst", "@list", "@none"),
            ("sport", "1024-2047", "70000"),
            ("skew", "1.2", "-1"),
            ("flows", "1000", "0"),
            ("flows", "1", "2000000"),
            ("ttl", "255", "256"),
            ("seed", "0", "-1"),
            ("src-mac", "2:0:0:0:0:a", "2:0"),
            ("dst-mac", "2:0:0:0:0:a,2:0:0:0:0:b", "2:0:0:0:0:a,"),
            ("matrix", "hot-spot", "none.csv"),
            ("matrix", "0.9 0.1; 1 0", "0.9 0.1; 1"),
            ("direction", "both", "back"),
            ("ipv6", "true", "yes"),
            ("rate", "anything", ""),
        ] {
            assert_eq!(fault(name, good, dir.path()), None, "{name} {good}");
            assert_eq!(fault(name, bad, dir.path()).is_some(), name != "rate", "{name} {bad}");
        }
    }

    #[test]
    fn values_that_do_not_go_together_are_refused() {
        let together = |all: &[(&str, &str)]| {
            let settings =
                all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            fault_together(&settings, false, Path::new("/")).unwrap_or_default()
        };
        assert_eq!(together(&[]), "");
        assert_eq!(together(&[("ipv6", "true"), ("size", "80"), ("dst", "2001:db8::/64")]), "");
        assert!(together(&[("ipv6", "true"), ("size", "imix")]).contains("at least 80"));
        assert_eq!(
            together(&[("ipv6", "true"), ("src", "10.0.0.1")]),
            "src: an IPv4 address with ipv6 = true"
        );
        assert_eq!(together(&[("dst", "::1")]), "dst: an IPv6 address without ipv6 = true");
        assert!(together(&[("flows", "3"), ("sport", "5-6")]).starts_with("flows: only 2 different flows"));
    }
}
