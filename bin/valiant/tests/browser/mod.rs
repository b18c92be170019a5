//! Pages as a browser without a window draws them.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What a script sees in a page, which it leaves as JSON in the attribute `data-seen` of the document, in a
/// window of a width, with light or dark colors. None: there is no browser.
pub fn seen(dir: &Path, page: &str, script: &str, (wide, dark): (u32, bool)) -> Option<Value> {
    let path = dir.join("look.html");
    std::fs::write(&path, page.replace("</body>", &format!("{script}</body>"))).unwrap();
    let out = Command::new("timeout")
        .args(["90", "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg(format!("--window-size={wide},900"))
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)))
        .arg(format!("file://{}", path.display()))
        .output()
        .unwrap();
    if out.status.code() == Some(127) {
        return None;
    }
    let dom = String::from_utf8_lossy(&out.stdout);
    let told = dom.split("data-seen=\"").nth(1).and_then(|rest| rest.split('"').next());
    let told = told.unwrap_or_else(|| panic!("{}\n{dom}", String::from_utf8_lossy(&out.stderr)));
    // As `encodeURIComponent` writes it.
    let mut bytes = Vec::new();
    let mut rest = told.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        (bytes, rest) = match (first, more) {
            (b'%', [a, b, more @ ..]) => {
                let digits = String::from_utf8(vec![*a, *b]).unwrap();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap());
                (bytes, more)
            }
            _ => {
                bytes.push(*first);
                (bytes, more)
            }
        };
    }
    Some(serde_json::from_slice(&bytes).unwrap())
}
