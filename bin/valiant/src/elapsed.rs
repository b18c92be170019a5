//! How long a run took.

use std::time::Duration;

/// The processor time that this process has used: user and system.
fn processor_time() -> (Duration, Duration) {
    // /proc/self/stat fields 14 and 15 (proc(5)), in clock ticks of 10 ms; fields are counted after the
    // command name.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    (Duration::from_millis(ticks(11) * 10), Duration::from_millis(ticks(12) * 10))
}

/// Prints it as Click does.
pub(crate) fn print(wall: Duration) {
    let (user, system) = processor_time();
    launch::output::print(&format!(
        "{}.{:03}u {}.{:03}s {}:{:02}.{:02}\n",
        user.as_secs(),
        user.subsec_millis(),
        system.as_secs(),
        system.subsec_millis(),
        wall.as_secs() / 60,
        wall.as_secs() % 60,
        wall.subsec_millis() / 10
    ));
}
