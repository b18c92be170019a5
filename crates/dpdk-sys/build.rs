//! Finds DPDK through pkg-config, compiles the C shims and writes the bindings for a short allow-list.

use std::env;
use std::path::{Path, PathBuf};
use std::process::exit;

/// Every Valiant binary runs on any x86-64-v2 processor; `libdpdk.pc` asks for `-march=corei7`, which we do
/// not pass on.
const BASELINE: &str = "-march=x86-64-v2";

/// The DPDK libraries that the bindings need, if they are shared. Drivers are not linked then: EAL loads them
/// from its plugin directory.
const LIBRARIES: [&str; 7] =
    ["rte_cryptodev", "rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_kvargs", "rte_eal"];

/// Kinds of drivers for devices that no router uses.
const UNUSED: [&str; 9] = [
    "rte_baseband_",
    "rte_compress_",
    "rte_dma_",
    "rte_event_",
    "rte_gpu_",
    "rte_ml_",
    "rte_raw_",
    "rte_regex_",
    "rte_vdpa_",
];

/// Libraries that DPDK's drivers need, each if DPDK was built with it.
const BELOW: [&str; 15] = [
    "ibverbs", "mlx5", "mlx4", "crypto", "z", "pcap", "IPSec_MB", "xdp", "bpf", "atomic", "numa", "fdt",
    "bsd", "jansson", "elf",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for source in [
        "shims.h",
        "shims.c",
        "crypto.h",
        "crypto.c",
        "flow.h",
        "flow.c",
        "nic.h",
        "nic.c",
        "ipsec_mb.h",
        "ipsec_mb.c",
    ] {
        println!("cargo:rerun-if-changed=src/{source}");
    }

    let dpdk = pkg_config::Config::new().atleast_version("22.11").cargo_metadata(false).probe("libdpdk");
    let dpdk = dpdk.unwrap_or_else(|error| {
        fail(&format!(
            "DPDK 22.11 or newer was not found: on Debian 12 run `apt-get install libdpdk-dev`\n\n{error}"
        ))
    });

    for path in &dpdk.link_paths {
        println!("cargo:rustc-link-search=native={}", path.display());
    }
    let archives = if optimized() { archives(&dpdk) } else { Vec::new() };
    if archives.is_empty() {
        LIBRARIES.iter().for_each(|library| println!("cargo:rustc-link-lib=dylib={library}"));
    } else {
        link_whole(&archives);
    }
    let drivers = archives.iter().filter_map(|name| name.strip_prefix("rte_"));
    let drivers: Vec<_> =
        drivers.filter(|name| name.starts_with("net_") || name.starts_with("crypto_")).collect();
    println!("cargo:rustc-env=VALIANT_DPDK_DRIVERS={}", drivers.join(" "));

    let mut cflags = vec![BASELINE.to_owned(), "-include".to_owned(), "rte_config.h".to_owned()];
    cflags.push("-DALLOW_EXPERIMENTAL_API".to_owned());
    cflags.extend(dpdk.include_paths.iter().map(|path| format!("-I{}", path.display())));

    shims(&dpdk.include_paths);
    bindings(&cflags);
}

/// Whether the binary shall be fast rather than quick to link.
fn optimized() -> bool {
    env::var("PROFILE").is_ok_and(|profile| profile == "release")
}

/// The names of DPDK's static libraries that a router can need; none: they are not installed.
fn archives(dpdk: &pkg_config::Library) -> Vec<String> {
    let mut directories = dpdk.link_paths.clone();
    directories.extend(pkg_config::get_variable("libdpdk", "libdir").ok().map(PathBuf::from));
    let Some(directory) = directories.into_iter().find(|path| path.join("librte_eal.a").exists()) else {
        println!(
            "cargo:warning=DPDK has no static libraries here: its shared ones, which are slower, are used"
        );
        return Vec::new();
    };
    println!("cargo:rustc-link-search=native={}", directory.display());
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let files = entries.filter_map(|file| file.file_name().into_string().ok());
    let names = files.filter_map(|file| Some(file.strip_prefix("lib")?.strip_suffix(".a")?.to_owned()));
    let unused = |name: &String| UNUSED.iter().any(|kind| name.starts_with(kind));
    let mut names: Vec<_> = names.filter(|name| name.starts_with("rte_") && !unused(name)).collect();
    names.sort();
    names
}

/// Links all of DPDK, with its drivers, into the binary: it starts earlier than with 128 drivers that are
/// loaded one by one, and the thread's number, which each access to a pool of buffers needs, is one load.
fn link_whole(archives: &[String]) {
    for name in archives {
        println!("cargo:rustc-link-lib=static:+whole-archive,-bundle={name}");
    }
    let all = pkg_config::Config::new().statik(true).cargo_metadata(false).probe("libdpdk");
    let all = all.unwrap_or_else(|error| fail(&format!("what DPDK's static libraries need: {error}")));
    for library in BELOW.iter().filter(|name| all.libs.iter().any(|known| known == *name)) {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
}

fn shims(include_paths: &[PathBuf]) {
    let mut build = cc::Build::new();
    build
        .file("src/shims.c")
        .file("src/crypto.c")
        .file("src/flow.c")
        .file("src/nic.c")
        .file("src/ipsec_mb.c")
        .opt_level(3)
        .flag(BASELINE)
        .flag("-include")
        .flag("rte_config.h");
    build
        .define("ALLOW_EXPERIMENTAL_API", None)
        .warnings(false)
        .flag("-Wall")
        .flag("-Wextra")
        .flag("-Werror=implicit-function-declaration");
    for path in include_paths {
        // DPDK's own headers are not ours to warn about.
        build.flag("-isystem").flag(path.to_str().expect("the include path is UTF-8"));
    }
    if let Err(error) = build.try_compile("valiant_shims") {
        fail(&format!(
            "the DPDK shims do not compile: on Debian 12 run `apt-get install gcc libdpdk-dev`\n\n{error}"
        ));
    }
}

fn bindings(cflags: &[String]) {
    let mut builder = bindgen::Builder::default()
        .header("src/shims.h")
        .clang_args(cflags)
        .use_core()
        .layout_tests(true)
        .derive_debug(false)
        .derive_default(false)
        .generate_comments(false)
        .prepend_enum_name(false)
        .allowlist_recursively(true)
        .formatter(bindgen::Formatter::None)
        .rust_target(bindgen::RustTarget::stable(85, 0).expect("bindgen knows Rust 1.85"))
        .rust_edition(bindgen::RustEdition::Edition2024);
    for name in include_str!("src/allowlist.txt").lines().map(str::trim) {
        if name.is_empty() || name.starts_with('#') {
            continue;
        }
        builder = match name.split_once(' ') {
            Some(("opaque", name)) => builder.allowlist_type(name).opaque_type(name),
            Some(("type", name)) => builder.allowlist_type(name),
            Some(("fn", name)) => builder.allowlist_function(name),
            Some(("const", name)) => builder.allowlist_var(name),
            _ => fail(&format!("allowlist.txt: what is `{name}`?")),
        };
    }
    println!("cargo:rerun-if-changed=src/allowlist.txt");
    let libclang =
        "bindgen failed; it needs libclang: on Debian 12 run `apt-get install libclang-dev libdpdk-dev`";
    let out = Path::new(&env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("bindings.rs");
    // bindgen panics instead of returning an error when libclang is missing.
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| builder.generate())) {
        Ok(Ok(bindings)) => bindings.write_to_file(out).expect("OUT_DIR is writable"),
        Ok(Err(error)) => fail(&format!("{libclang}\n\n{error}")),
        Err(_) => fail(libclang),
    }
}

fn fail(message: &str) -> ! {
    eprintln!("\nerror: {message}\n");
    exit(1);
}
