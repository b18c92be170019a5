//! Files that elements write. Whether a file can be written is found out while the configuration is set up;
//! it is emptied at the change-over, when nothing can prevent the configuration any more.

use crate::infile::must_not_wait;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use runtime::Hub;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// The device and inode numbers, which identify a file.
pub(crate) type FileId = (u64, u64);

/// The identity of an existing file.
pub(crate) fn id_of(meta: &Metadata) -> FileId {
    (meta.dev(), meta.ino())
}

/// A file that is going to be written, with its contents as they were.
pub(crate) struct NewFile {
    file: Option<File>,
    path: PathBuf,
    /// It was not there before.
    created: bool,
}

impl NewFile {
    /// Opens a file, or makes it, which is undone unless [`NewFile::begin`] follows.
    pub(crate) fn open(hub: &Hub, path: &str) -> io::Result<Self> {
        let writing = |flags: OFlag| hub.open(path, OFlag::O_WRONLY | flags);
        let of = |file: File, created| Self { file: Some(file), path: path.into(), created };
        if must_not_wait(path) {
            let file = writing(OFlag::O_NONBLOCK).map_err(|e| {
                match nix::errno::Errno::from_raw(e.raw_os_error().unwrap_or_default()) {
                    nix::errno::Errno::ENXIO => io::Error::other("it is a pipe that nobody reads"),
                    _ => e,
                }
            })?;
            // Only opening it must not wait.
            fcntl(&file, FcntlArg::F_SETFL(OFlag::empty()))?;
            return Ok(of(file, false));
        }
        match writing(OFlag::empty()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            other => return other.map(|file| of(file, false)),
        }
        match writing(OFlag::O_CREAT | OFlag::O_EXCL) {
            // A symbolic link that leads to nothing: what it leads to is made.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                // Not a file that another process has created meanwhile.
                let created = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink());
                let file = writing(OFlag::O_CREAT)?;
                Ok(Self { file: Some(file), path: std::fs::canonicalize(path)?, created })
            }
            other => other.map(|file| of(file, true)),
        }
    }

    /// Which file it is.
    pub(crate) fn id(&self) -> io::Result<FileId> {
        self.file.as_ref().map_or(Err(io::ErrorKind::NotFound.into()), |f| f.metadata().map(|m| id_of(&m)))
    }

    /// Another handle on the file, for a process that is to write it.
    pub(crate) fn another(&self) -> io::Result<File> {
        self.file.as_ref().map_or(Err(io::ErrorKind::NotFound.into()), File::try_clone)
    }

    /// Empties the file, and gives it to be written.
    pub(crate) fn begin(mut self) -> io::Result<File> {
        self.created = false;
        let file = self.file.take().ok_or(io::ErrorKind::NotFound)?;
        // Devices and pipes have nothing to be emptied.
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        Ok(file)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        let mine = || Some((self.id().ok()?, std::fs::symlink_metadata(&self.path).ok()?));
        if self.created
            && let Some((id, there)) = mine()
            && id == id_of(&there)
            && there.len() == 0
        {
            // Another process may have created it first.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_emptied_when_it_begins_and_not_before() {
        let dir = std::env::temp_dir().join(format!("valiant-outfile-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = |name: &str| dir.join(name).display().to_string();
        let (old, new, link, lost) = (path("old"), path("new"), path("link"), path("lost"));
        std::fs::write(&old, "precious").unwrap();
        std::os::unix::fs::symlink(&old, &link).unwrap();
        for name in [&old, &link] {
            drop(NewFile::open(&Hub::default(), name).unwrap());
            assert_eq!(std::fs::read(&old).unwrap(), b"precious");
        }
        drop(NewFile::open(&Hub::default(), &new).unwrap());
        assert!(!std::fs::exists(&new).unwrap(), "made for nothing, and removed");
        NewFile::open(&Hub::default(), &new).unwrap().begin().unwrap().write_all(b"x").unwrap();
        assert_eq!(std::fs::read(&new).unwrap(), b"x");
        NewFile::open(&Hub::default(), &link).unwrap().begin().unwrap().write_all(b"y").unwrap();
        assert_eq!(std::fs::read(&old).unwrap(), b"y");
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        // What a link leads to, too.
        let (dangling, target) = (path("dangling"), path("target"));
        std::os::unix::fs::symlink(&target, &dangling).unwrap();
        drop(NewFile::open(&Hub::default(), &dangling).unwrap());
        assert!(!std::fs::exists(&target).unwrap() && std::fs::symlink_metadata(&dangling).is_ok());
        NewFile::open(&Hub::default(), &dangling).unwrap().begin().unwrap();
        assert!(std::fs::exists(&target).unwrap());
        // A file that another process has put in its place stays.
        let file = NewFile::open(&Hub::default(), &lost).unwrap();
        std::fs::remove_file(&lost).unwrap();
        std::fs::write(&lost, "").unwrap();
        drop(file);
        assert!(std::fs::exists(&lost).unwrap());
        NewFile::open(&Hub::default(), "/dev/null").unwrap().begin().unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
