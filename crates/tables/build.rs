//! Tells the compiler that `--cfg loom` is meant: it swaps the atomics for loom's.
fn main() {
    println!("cargo::rustc-check-cfg=cfg(loom)");
    println!("cargo::rerun-if-changed=build.rs");
}
