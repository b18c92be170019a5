//! What programs that measure need.

/// The processor's cycle counter.
#[cfg(target_arch = "x86_64")]
pub fn cycles() -> u64 {
    // SAFETY: the counter exists on every x86-64 processor, and reading it touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Nanoseconds, where there is no such counter.
#[cfg(not(target_arch = "x86_64"))]
pub fn cycles() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
}

/// The one in the middle.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The memory of this process that lies in RAM.
pub fn resident_kb() -> Result<f64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
