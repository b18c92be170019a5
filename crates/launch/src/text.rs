//! Text files that a user names.

use std::io::Read;
use std::path::Path;

/// The longest file that is read, in bytes.
const LONGEST: u64 = 16 << 20;

/// The text of a file.
///
/// # Errors
/// A reason: it cannot be read, is too long, or is not text.
pub fn read_text(path: &Path) -> Result<String, String> {
    let open = || std::fs::File::open(path);
    let mut bytes = Vec::new();
    open()
        .and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes))
        .map_err(|error| runtime::reason(&error))?;
    if bytes.len() as u64 > LONGEST {
        return Err(format!("it is longer than {} MiB", LONGEST >> 20));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_end_are_refused() {
        assert_eq!(read_text(Path::new("/dev/zero")), Err("it is longer than 16 MiB".to_owned()));
        assert!(read_text(Path::new("/")).is_err());
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "0 1\n").unwrap();
        assert_eq!(read_text(file.path()), Ok("0 1\n".to_owned()));
        std::fs::write(file.path(), [0xff]).unwrap();
        assert_eq!(read_text(file.path()), Err("it is not UTF-8".to_owned()));
    }
}
