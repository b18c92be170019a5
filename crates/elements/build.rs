//! Extracts each element's manual: the `//!` comment at the head of its file.
//!
//! `src/SECTION/CLASS.rs` becomes `OUT_DIR/man/SECTION/CLASS.md`, which `manual!("SECTION/CLASS")` includes.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=src");
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    runtime_manual(Path::new("src"), &Path::new(&out).join("man"))
}

fn runtime_manual(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let Some(name) = path.file_name() else { continue };
        if path.is_dir() {
            runtime_manual(&path, &to.join(name))?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path)?;
            let manual: String = text
                .lines()
                .map_while(|l| l.strip_prefix("//!"))
                .map(|l| l.strip_prefix(' ').unwrap_or(l).to_owned() + "\n")
                .collect();
            let target = to.join(name).with_extension("md");
            if fs::read_to_string(&target).ok().as_deref() != Some(&manual) {
                fs::write(target, manual)?;
            }
        }
    }
    Ok(())
}
