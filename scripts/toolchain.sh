# shellcheck shell=bash
# Sourced by the other scripts: finds the Rust toolchain. Debian's own cargo is never used: it is too old.

export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"

# The version in rust-toolchain.toml.
pinned_rust() { sed -n 's/^channel *= *"\(.*\)"/\1/p' rust-toolchain.toml; }

# Where scripts/bootstrap puts the programs of scripts/tools.txt, and whether they are all there.
tools_dir() { realpath -m "${CARGO_TARGET_DIR:-target}/tools"; }
has_tools() { cmp -s scripts/tools.txt "$(tools_dir)/tools.txt"; }

# Make `cargo` in this directory be the pinned Rust. An installed toolchain of the same version under another name
# ("stable", say) serves as well as one that would have to be downloaded. Fails when there is none.
choose_toolchain() {
    local want name
    want=$(pinned_rust)
    works() { [[ $(rustc --version 2>/dev/null) == "rustc $want "* ]] && cargo fmt --version >/dev/null 2>&1 &&
        cargo clippy --version >/dev/null 2>&1; }
    export RUSTUP_AUTO_INSTALL=0
    works && return 0
    command -v rustup >/dev/null || return 1
    while read -r name _; do
        export RUSTUP_TOOLCHAIN=$name
        works && return 0
    done < <(rustup toolchain list 2>/dev/null)
    unset RUSTUP_TOOLCHAIN
    return 1
}
