//! Finding out which server is at an endpoint, after a connection broke without an error message.

use crate::failure::tls_error;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, ClientConfig};

/// The first bytes of HTTP/2: the preface, and an empty SETTINGS frame (RFC 9113 section 3.4).
const BEGIN: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The offset of a frame's type, and the type SETTINGS, which the first frame of the other end must have.
const SETTINGS: (usize, u8) = (3, 4);

/// The result of probing a TLS connection.
#[derive(Debug)]
pub(crate) enum Found {
    /// TLS reports an error.
    Error(rustls::Error),
    /// The server closes the connection when TLS begins.
    HangsUp,
}

/// Finds the error of TLS. A member that refuses this client's certificate reports it after the handshake,
/// and that alert can be lost if a request is sent at the same time.
pub(crate) async fn tls(config: Arc<ClientConfig>, endpoint: &str, limit: Duration) -> Option<Found> {
    let look = async {
        let (host, port) = endpoint.strip_prefix("https://")?.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).ok()?;
        let stream = TcpStream::connect((host, port.parse().ok()?)).await.ok()?;
        match TlsConnector::from(config).connect(name, stream).await {
            Ok(mut stream) => tls_error(&stream.read_u8().await.err()?).cloned().map(Found::Error),
            Err(e) => Some(tls_error(&e).map_or(Found::HangsUp, |e| Found::Error(e.clone()))),
        }
    };
    timeout(limit, look).await.ok()?
}

/// The first bytes that a server sends which does not speak HTTP/2.
pub(crate) async fn words(endpoint: &str, limit: Duration) -> Option<String> {
    let look = async {
        let mut stream = TcpStream::connect(endpoint.strip_prefix("http://")?).await.ok()?;
        stream.write_all(BEGIN).await.ok()?;
        let mut answer = [0; 60];
        let length = stream.read(&mut answer).await.ok()?;
        let received = &answer[..length];
        let foreign = !received.is_empty() && received.get(SETTINGS.0) != Some(&SETTINGS.1);
        foreign.then(|| {
            String::from_utf8_lossy(received).lines().next().unwrap_or_default().escape_debug().to_string()
        })
    };
    timeout(limit, look).await.ok()?
}
