//! Files that elements read as a whole. Their length is limited, and a running router never waits for a pipe.

use nix::fcntl::OFlag;
use runtime::Hub;
use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;

/// The longest file that is read as a whole, in bytes.
pub(crate) const MAX_FILE: usize = 64 << 20;

/// Whether a path leads to a pipe.
fn is_pipe(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_fifo())
}

/// Whether a path leads to a pipe that must not be opened now, because the running router would wait for the
/// other end.
pub(crate) fn must_not_wait(path: &str) -> bool {
    runtime::is_replacing() && is_pipe(path)
}

/// Returns an error if [`must_not_wait`].
pub(crate) fn refuse_to_wait(path: &str) -> io::Result<()> {
    if must_not_wait(path) { Err(refusal()) } else { Ok(()) }
}

fn refusal() -> io::Error {
    io::Error::other("it is a pipe, which a running router does not wait for")
}

/// Gives `take` the bytes of a file, one piece after the other. Returns the file's metadata.
///
/// # Errors
/// The file cannot be read, or has more than `most` bytes, or is a pipe that a running router would wait for.
pub(crate) fn read(
    hub: &Hub,
    path: &str,
    most: usize,
    mut take: impl FnMut(&[u8], &Metadata),
) -> io::Result<Metadata> {
    refuse_to_wait(path)?;
    let mut file = hub.open(path, OFlag::O_RDONLY)?;
    let about = file.metadata()?;
    let (mut chunk, mut length) = ([0; 4096], 0);
    loop {
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(n) => {
                length += n;
                if length > most {
                    return Err(io::Error::other(format!("it has more than {}", shown(most))));
                }
                take(chunk.get(..n).unwrap_or(&[]), &about);
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    // The file may contain a key.
    chunk.fill(0);
    std::hint::black_box(&mut chunk);
    Ok(about)
}

/// The bytes of a file, while the router runs. A pipe is an error.
pub(crate) fn read_now(hub: &Hub, path: &str) -> io::Result<Vec<u8>> {
    if is_pipe(path) {
        return Err(refusal());
    }
    let mut bytes = Vec::new();
    read(hub, path, MAX_FILE, |piece, _| bytes.extend_from_slice(piece))?;
    Ok(bytes)
}

fn shown(bytes: usize) -> String {
    match bytes {
        0x10_0000.. => format!("{} MB", bytes >> 20),
        0x400.. => format!("{} KB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "reads files")]
    fn a_file_is_read_up_to_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file").display().to_string();
        std::fs::write(&path, [7; 9000]).unwrap();
        let mut bytes = Vec::new();
        assert_eq!(
            read(&Hub::default(), &path, 9000, |piece, _| bytes.extend_from_slice(piece)).unwrap().len(),
            9000
        );
        assert_eq!(bytes, [7; 9000]);
        for (path, most, wrong) in [
            (path.as_str(), 8999, "it has more than 8 KB"),
            ("/dev/zero", 100, "it has more than 100 bytes"),
            ("/dev/zero", MAX_FILE, "it has more than 64 MB"),
        ] {
            assert_eq!(read(&Hub::default(), path, most, |_, _| {}).unwrap_err().to_string(), wrong);
        }
        assert!(read(&Hub::default(), dir.path().to_str().unwrap(), 1, |_, _| {}).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads files")]
    fn a_pipe_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(
            read_now(&Hub::default(), path.to_str().unwrap())
                .unwrap_err()
                .to_string()
                .contains("it is a pipe")
        );
    }
}
