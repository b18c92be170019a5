//! The token with which a router's owner reaches it over TCP.

use crate::file::{HostFile, VirtualRouter};
use lang::{Diagnostic, Diagnostics};
use launch::shortest;
use runtime::{Socket, Token};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use vrhost::TcpAccess;

/// The token in a file, or what is wrong and what to do.
fn read(path: &Path) -> Result<Token, (String, String)> {
    let shown = shortest(path);
    let refused = |e: io::Error| {
        let help = format!(
            "paths start at the directory of the host file; `openssl rand -hex 32 >{shown}` makes one"
        );
        (format!("the token file {shown}: {}", launch::reason(&e)), help)
    };
    let about = std::fs::metadata(path).map_err(refused)?;
    if !about.is_file() {
        return Err((
            format!("the token file {shown}: it is not a file"),
            "name a file with a word".to_owned(),
        ));
    }
    if about.permissions().mode() & 0o077 != 0 {
        return Err((Token::readable_by_others(&shown), "whoever has the token has the router".to_owned()));
    }
    let mut text = Vec::new();
    let most = Token::LONGEST_FILE as u64 + 1;
    File::open(path).and_then(|file| file.take(most).read_to_end(&mut text)).map_err(refused)?;
    let word = Token::from_bytes(&text);
    word.map_err(|e| (format!("the token file {shown}: {e}"), "write one word into it".to_owned()))
}

/// How a router's owner reaches it over TCP; none: not at all.
///
/// # Errors
/// There is no good token.
pub(crate) fn access(file: &HostFile, router: &VirtualRouter) -> Result<Option<TcpAccess>, Diagnostics> {
    let Some(tcp) = &router.tcp else { return Ok(None) };
    let token = read(&tcp.token_file).map_err(|(message, help)| {
        let mut wrong = Diagnostics::new();
        wrong.push(
            Diagnostic::error(tcp.token_span, format!("router {}: {message}", router.name)).with_help(help),
        );
        wrong.set_sources(file.sources.clone());
        wrong
    })?;
    let control = Socket::Unix(runtime::whole(&file.socket(router)));
    Ok(Some(TcpAccess { control, listen: tcp.listen, token }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    #[test]
    fn a_token_file_is_a_word_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("blue.token");
        let told = |mode: u32, text: &str| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            read(&path).map_err(|(message, _)| message)
        };
        assert!(read(&path).unwrap_err().0.contains("blue.token: No such file"));
        assert!(read(dir.path()).unwrap_err().0.contains("it is not a file"));
        assert_eq!(told(0o600, "secret\n").unwrap(), Token::new("secret").unwrap());
        for mode in [0o640, 0o604, 0o620] {
            assert!(told(mode, "secret").unwrap_err().contains("others than its owner can read"), "{mode:o}");
        }
        assert!(told(0o600, "two words").unwrap_err().contains("a token is one word"));
        assert!(told(0o600, "").unwrap_err().contains("a token is one word"));
        assert!(told(0o600, &"x".repeat(10_000)).unwrap_err().contains("at most 4096 bytes"));
    }
}
