//! A machine that is made up: a directory that stands in for /sys. For the tests of `Topology`, of `bench`
//! and of `valiant plan-cores`.

use std::fs;
use std::path::PathBuf;

/// Two NUMA nodes with two cores of two threads each; processors 2, 3, 6 and 7 are on node 1. The NIC
/// 0000:81:00.0 is at node 1, 0000:01:00.0 at none; eth0 has one receive queue, eth1 two.
pub(crate) struct Machine {
    /// The directory.
    pub(crate) root: PathBuf,
}

impl Machine {
    /// A machine whose isolated processors are those of a list, as Linux writes it. Different tests give
    /// different names.
    pub(crate) fn new(name: &str, isolated: &str) -> Self {
        let root = std::env::temp_dir().join(format!("valiant-machine-{name}-{}", std::process::id()));
        let file = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        file("devices/system/cpu/online", "0-7\n");
        file("devices/system/cpu/isolated", &format!("{isolated}\n"));
        for cpu in 0..8 {
            let topology = format!("devices/system/cpu/cpu{cpu}/topology");
            file(&format!("{topology}/thread_siblings_list"), &format!("{},{}\n", cpu % 4, cpu % 4 + 4));
            file(&format!("{topology}/physical_package_id"), if cpu % 4 < 2 { "0\n" } else { "1\n" });
        }
        for (node, cpus, distance) in [(0, "0-1,4-5\n", "10 32\n"), (1, "2-3,6-7\n", "32 10\n")] {
            file(&format!("devices/system/node/node{node}/cpulist"), cpus);
            file(&format!("devices/system/node/node{node}/distance"), distance);
        }
        file("bus/pci/devices/0000:81:00.0/numa_node", "1\n");
        file("bus/pci/devices/0000:01:00.0/numa_node", "-1\n");
        for queue in ["eth0/queues/rx-0", "eth1/queues/rx-0", "eth1/queues/rx-1", "eth1/queues/tx-0"] {
            file(&format!("class/net/{queue}/rps_cpus"), "");
        }
        Self { root }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // What is left in /tmp is small.
        let _ = fs::remove_dir_all(&self.root);
    }
}
