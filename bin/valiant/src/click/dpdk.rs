//! DPDK's arguments on FastClick's command line.

/// Reads which processors a text names.
type Cpus = fn(&str) -> Option<Vec<usize>>;

/// FastClick's `--dpdk EAL-ARGUMENT... --` becomes `--eal`, but for the processors in it, which are those of
/// the threads.
pub(super) fn without_dpdk(mut args: Vec<String>) -> Vec<String> {
    if let Some(start) = args.iter().position(|a| a == "--dpdk") {
        let end = args[start..].iter().position(|a| a == "--").map_or(args.len(), |n| start + n + 1);
        let mut given = args.drain(start..end).filter(|a| a != "--dpdk" && a != "--");
        let (mut eal, mut cpus) = (Vec::new(), None);
        while let Some(arg) = given.next() {
            // Valiant's own thread is DPDK's main lcore.
            if let Some(main) = ["--main-lcore", "--master-lcore"].iter().find(|name| arg.starts_with(**name))
            {
                if arg == **main {
                    given.next();
                }
                continue;
            }
            let with =
                |name: &str| arg.strip_prefix(name).map(|rest| rest.trim_start_matches('=').to_owned());
            let (value, of): (_, Cpus) = match () {
                () if arg.starts_with("--lcores") => (with("--lcores"), |list| launch::cpu_list(list).ok()),
                () if arg.starts_with("-l") => (with("-l"), |list| launch::cpu_list(list).ok()),
                () if arg.starts_with("-c") => (with("-c"), cpus_of_mask),
                () => (None, |_| None),
            };
            let Some(value) = value else {
                eal.push(arg);
                continue;
            };
            let (value, own) = if value.is_empty() { (given.next(), true) } else { (Some(value), false) };
            match value.as_deref().and_then(of) {
                Some(all) => cpus = Some(all),
                // DPDK refuses it.
                None => eal.extend([arg].into_iter().chain(value.filter(|_| own))),
            }
        }
        drop(given);
        if !eal.is_empty() {
            args.insert(1, format!("--eal={}", eal.join(" ")));
        }
        if let Some(cpus) = cpus {
            let list: Vec<String> = cpus.iter().map(ToString::to_string).collect();
            args.insert(1, format!("--cpus={}", list.join(",")));
            args.insert(1, format!("--threads={}", cpus.len()));
        }
    }
    args
}

/// The processors of a hexadecimal mask.
fn cpus_of_mask(text: &str) -> Option<Vec<usize>> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let mask = u128::from_str_radix(digits, 16).ok().filter(|mask| *mask != 0)?;
    Some((0..128).filter(|cpu| mask >> cpu & 1 == 1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dpdk_arguments_of_fastclick() {
        let args = |a: &str| a.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(without_dpdk(args("click --dpdk -m 64 -- a.click")), ["click", "--eal=-m 64", "a.click"]);
        assert_eq!(without_dpdk(args("click a.click")), ["click", "a.click"]);
        for cores in [
            "-l 0-2,5",
            "-l0-2,5",
            "-c 0x27",
            "-c27",
            "--lcores=0-2,5",
            "--lcores 0-2,5",
            "-l 0-2,5 --main-lcore 2",
        ] {
            assert_eq!(
                without_dpdk(args(&format!("click --dpdk {cores} -n 4 -- a.click x=1"))),
                ["click", "--threads=4", "--cpus=0,1,2,5", "--eal=-n 4", "a.click", "x=1"],
                "{cores}"
            );
        }
        // DPDK complains of it.
        assert_eq!(without_dpdk(args("click --dpdk -l x -- a.click")), ["click", "--eal=-l x", "a.click"]);
    }
}
