//! Which processors of the kernel handle the frames of an interface: receive packet steering (RPS).
//!
//! Without it the frames of a veth are handled where they were sent. A host sends on several processors:
//! where its programs run, and, whenever a worker delivers an acknowledgement, on that worker's. Then frames
//! of one connection overtake each other on their way into the router's ring, which TCP takes for losses, and
//! the worker copies into the ring what another processor has the time for. With RPS all frames of a flow go
//! by one processor, one that no worker uses. To wake that processor takes some 25 microseconds, so it is
//! used only while many frames come.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::netdev::Interface;

/// Where interfaces show their settings, those of the network namespace for which it was mounted.
const SETTINGS: &str = "/sys/class/net";
/// Drivers that deliver a frame on the processor that has sent it.
const DELIVERS_WHERE_SENT: [&str; 1] = ["veth"];

/// Processors that handle the frames while many come; undone when this is dropped, as far as the process
/// still has the right.
#[derive(Debug)]
pub(crate) struct Steering {
    settings: PathBuf,
    index: u32,
    files: Vec<PathBuf>,
    mask: String,
    /// The processors, as text.
    pub(crate) cpus: String,
    /// How many receivers want it.
    wanted: AtomicUsize,
}

impl Steering {
    /// Prepares that these processors handle the frames of an interface, if it is one that needs it and
    /// nobody has chosen any yet.
    pub(crate) fn to(interface: &Interface, cpus: &[usize]) -> Option<Steering> {
        if !DELIVERS_WHERE_SENT.contains(&interface.driver.as_str()) {
            return None;
        }
        Steering::within(Path::new(SETTINGS), interface, cpus)
    }

    fn within(root: &Path, interface: &Interface, cpus: &[usize]) -> Option<Steering> {
        let settings = root.join(&interface.name);
        // Those of another namespace may have an interface of this name.
        let address = fs::read_to_string(settings.join("address")).ok()?;
        if index(&settings) != Some(interface.index)
            || !is_address(&address, interface.mac)
            || cpus.is_empty()
        {
            return None;
        }
        let queues =
            (0..interface.rx_queues).map(|queue| settings.join(format!("queues/rx-{queue}/rps_cpus")));
        let files: Vec<PathBuf> = queues.collect();
        if !files.iter().all(|file| fs::read_to_string(file).is_ok_and(|mask| is_empty(&mask))) {
            return None;
        }
        let list: Vec<String> = cpus.iter().map(usize::to_string).collect();
        let (mask, cpus) = (mask(cpus), list.join(","));
        Some(Steering { settings, index: interface.index, files, mask, cpus, wanted: AtomicUsize::new(0) })
    }

    /// Says that one more receiver wants it, or one less: it is on while any does. Writing the setting takes
    /// the kernel a moment.
    pub(crate) fn want(&self, on: bool) {
        if on && self.wanted.fetch_add(1, Ordering::AcqRel) == 0 {
            self.write(&self.mask);
        } else if !on && self.wanted.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.write("0");
        }
    }

    fn write(&self, mask: &str) {
        // Another interface may have got the name. The process may have given up the right.
        if index(&self.settings) == Some(self.index) {
            for file in &self.files {
                let _ = fs::write(file, mask);
            }
        }
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        if self.wanted.load(Ordering::Acquire) > 0 {
            self.write("0");
        }
    }
}

fn index(settings: &Path) -> Option<u32> {
    fs::read_to_string(settings.join("ifindex")).ok()?.trim().parse().ok()
}

fn is_address(text: &str, mac: [u8; 6]) -> bool {
    let mut bytes = text.trim().split(':').map(|byte| u8::from_str_radix(byte, 16).ok());
    mac.iter().all(|&byte| bytes.next() == Some(Some(byte))) && bytes.next().is_none()
}

/// Whether a mask names no processor.
fn is_empty(mask: &str) -> bool {
    mask.trim().chars().all(|digit| matches!(digit, '0' | ','))
}

/// Processors as the kernel writes them: hexadecimal words of 32, the highest first.
fn mask(cpus: &[usize]) -> String {
    let words = cpus.iter().max().map_or(1, |max| max / 32 + 1);
    let mut mask = vec![0u32; words];
    for &cpu in cpus {
        mask[words - 1 - cpu / 32] |= 1 << (cpu % 32);
    }
    let words: Vec<String> = mask.iter().map(|word| format!("{word:08x}")).collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_the_kernels() {
        assert_eq!(mask(&[0]), "00000001");
        assert_eq!(mask(&[33, 0, 31]), "00000002,80000001");
        assert!(is_empty("00,00000000\n") && !is_empty("00000000,00000002\n"));
        assert!(is_address("02:00:00:00:00:0a\n", [2, 0, 0, 0, 0, 10]));
        assert!(!is_address("02:00:00:00:00:0a:00:01\n", [2, 0, 0, 0, 0, 10]) && !is_address("", [0; 6]));
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn what_was_set_is_undone_and_what_others_have_set_stays() {
        let root = std::env::temp_dir().join(format!("valiant-steering-{}", std::process::id()));
        let settings = root.join("eth7");
        let interface = Interface {
            name: "eth7".into(),
            index: 12,
            driver: "veth".into(),
            mac: [2, 0, 0, 0, 0, 10],
            mtu: 1500,
            rx_queues: 2,
            tx_queues: 1,
            up: true,
            running: true,
            loopback: false,
            segmentation: true,
        };
        let queue = |n: u32| settings.join(format!("queues/rx-{n}/rps_cpus"));
        for n in 0..2 {
            fs::create_dir_all(queue(n).parent().unwrap()).unwrap();
            fs::write(queue(n), "00000000\n").unwrap();
        }
        fs::write(settings.join("ifindex"), "12\n").unwrap();
        fs::write(settings.join("address"), "02:00:00:00:00:0a\n").unwrap();
        let masks = || [0, 1].map(|n| fs::read_to_string(queue(n)).unwrap().trim().to_owned());
        let steering = Steering::within(&root, &interface, &[0, 3]).unwrap();
        assert_eq!((masks(), steering.cpus.as_str()), (["00000000", "00000000"].map(str::to_owned), "0,3"));
        steering.want(true);
        steering.want(true);
        steering.want(false);
        assert_eq!(masks(), ["00000009", "00000009"]);
        assert!(Steering::within(&root, &interface, &[1]).is_none(), "it is set already");
        drop(steering);
        assert_eq!(masks(), ["0", "0"]);
        assert!(Steering::within(&root, &interface, &[]).is_none());
        assert!(Steering::within(&root, &Interface { index: 13, ..interface.clone() }, &[1]).is_none());
        assert!(Steering::within(&root, &Interface { mac: [0; 6], ..interface.clone() }, &[1]).is_none());
        fs::write(queue(1), "00000004\n").unwrap();
        assert!(Steering::within(&root, &interface, &[1]).is_none());
        assert_eq!(masks(), ["0", "00000004"]);
        let bridge = Interface { driver: "bridge".into(), ..interface };
        assert!(Steering::to(&bridge, &[1]).is_none());
        fs::remove_dir_all(&root).unwrap();
    }
}
