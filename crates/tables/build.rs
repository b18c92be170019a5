//! Declares `--cfg loom` to the compiler: with it, the atomics are those of loom.
fn main() {
    println!("cargo::rustc-check-cfg=cfg(loom)");
    println!("cargo::rerun-if-changed=build.rs");
}
