//! How etcd and this client authenticate each other: certificates and passwords, all in files.

use crate::Error;
use etcd_client::{Certificate, Identity, TlsOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::{self, AlertDescription, CertificateError, ClientConfig, RootCertStore};

/// How etcd and this client authenticate each other. By default they do not: plain HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// The certificates (PEM) of the CAs that sign etcd's certificate; no other CA is trusted. Needed for
    /// `https://`.
    pub ca_file: Option<PathBuf>,
    /// This client's certificate (PEM), followed by the intermediate certificates up to the CA that etcd
    /// knows.
    pub cert_file: Option<PathBuf>,
    /// Its key (PEM, not encrypted).
    pub key_file: Option<PathBuf>,
    /// This client's user name at etcd.
    pub user: Option<String>,
    /// A file with the user's password: all of it except the line end.
    pub password_file: Option<PathBuf>,
}

/// The configuration of TLS, once for the library and once for finding the cause of a failure.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) options: TlsOptions,
    pub(crate) config: Arc<ClientConfig>,
}

/// Time, length and inode of files when they were read.
pub(crate) type Stamp = Vec<Option<(SystemTime, u64, u64)>>;

impl Trust {
    /// Checks whether the settings are consistent with each other and with the endpoints. Reads no file.
    ///
    /// # Errors
    /// A setting is missing, or has no effect.
    pub fn check<S: AsRef<str>>(&self, endpoints: &[S]) -> Result<(), Error> {
        let tls = endpoints.iter().any(|e| e.as_ref().starts_with("https://"));
        let wrong = |what, why| Err(Error::Setting { what, why });
        match (tls, &self.ca_file, &self.cert_file, &self.key_file) {
            (true, None, ..) => wrong(
                "ca_file",
                "an https:// endpoint needs it: the certificate of whoever signed etcd's; \
                 /etc/ssl/certs/ca-certificates.crt for those whom the system trusts",
            ),
            (false, Some(_), ..) => wrong("ca_file", "it is for https:// endpoints, and there is none"),
            (false, _, Some(_), _) => wrong("cert_file", "it is for https:// endpoints, and there is none"),
            (false, .., Some(_)) => wrong("key_file", "it is for https:// endpoints, and there is none"),
            (_, _, Some(_), None) => wrong("cert_file", "it needs key_file, the key of that certificate"),
            (_, _, None, Some(_)) => wrong("key_file", "it needs cert_file, the certificate of that key"),
            _ => Ok(()),
        }?;
        match (&self.user, &self.password_file) {
            (Some(_), None) => wrong("user", "it needs password_file, a file with the user's password"),
            (None, Some(_)) => wrong("password_file", "it needs user, the name whose password this is"),
            (Some(name), _) if name.is_empty() => wrong("user", "it is empty"),
            _ => Ok(()),
        }
    }

    /// Reads the certificates; none without `ca_file`.
    pub(crate) fn load(&self) -> Result<Option<Tls>, Error> {
        let Some(ca_file) = &self.ca_file else { return Ok(None) };
        let bad = |what, path: &Path, why: String| Error::File { what, path: path.to_owned(), why };
        let text = read("ca_file", ca_file)?;
        let mut roots = RootCertStore::empty();
        if roots.add_parsable_certificates(certificates("ca_file", ca_file, &text)?).0 == 0 {
            return Err(bad("ca_file", ca_file, "what is in it cannot be read as a certificate".into()));
        }
        let options = TlsOptions::new().ca_certificate(Certificate::from_pem(text));
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| bad("ca_file", ca_file, e.to_string()))?
            .with_root_certificates(roots);
        let (Some(cert_file), Some(key_file)) = (&self.cert_file, &self.key_file) else {
            return Ok(Some(Tls { options, config: Arc::new(builder.with_no_client_auth()) }));
        };
        let chain_text = read("cert_file", cert_file)?;
        let chain = certificates("cert_file", cert_file, &chain_text)?;
        let key_text = read("key_file", key_file)?;
        let key = PrivateKeyDer::from_pem_slice(&key_text).map_err(|e| {
            bad(
                "key_file",
                key_file,
                match e {
                    pem::Error::NoItemsFound => {
                        "there is no key in it; an encrypted one has to be decrypted, \
                     'openssl pkey -in THIS -out NEW', and kept where only its owner can read it"
                            .into()
                    }
                    e => format!("it is not PEM ({e})"),
                },
            )
        })?;
        let identity = Identity::from_pem(chain_text, key_text);
        let config = builder.with_client_auth_cert(chain, key).map_err(|e| {
            bad(
                "key_file",
                key_file,
                match e {
                    rustls::Error::InconsistentKeys(_) => {
                        format!("it is not the key of the certificate in {}", cert_file.display())
                    }
                    e => format!("it cannot be used with {}: {e}", cert_file.display()),
                },
            )
        })?;
        Ok(Some(Tls { options: options.identity(identity), config: Arc::new(config) }))
    }

    /// The present time, length and inode of the files, so that renewed certificates are used without a
    /// restart.
    pub(crate) fn stamp(&self) -> Stamp {
        use std::os::unix::fs::MetadataExt;
        let look = |path: &PathBuf| {
            let m = std::fs::metadata(path).ok()?;
            Some((m.modified().ok()?, m.len(), m.ino()))
        };
        [&self.ca_file, &self.cert_file, &self.key_file].map(|path| path.as_ref().and_then(look)).to_vec()
    }

    /// The user and the password, if there is one.
    pub(crate) fn login(&self) -> Result<Option<(&str, String)>, Error> {
        let (Some(user), Some(path)) = (&self.user, &self.password_file) else { return Ok(None) };
        let bad = |why: &str| Error::File { what: "password_file", path: path.clone(), why: why.to_owned() };
        let text = String::from_utf8(read("password_file", path)?).map_err(|_| bad("it is no UTF-8"))?;
        let password = text.strip_suffix('\n').unwrap_or(&text);
        let password = password.strip_suffix('\r').unwrap_or(password);
        if password.is_empty() {
            return Err(bad("it is empty"));
        }
        Ok(Some((user, password.to_owned())))
    }

    /// The error for a failed TLS handshake: the cause, and what to do.
    pub(crate) fn failure(&self, endpoint: &str, error: &rustls::Error) -> Error {
        let name = |path: &Option<PathBuf>| path.as_deref().unwrap_or(Path::new("?")).display().to_string();
        let endpoint = endpoint.to_owned();
        let why = match error {
            rustls::Error::InvalidCertificate(e) => self.distrust(e),
            rustls::Error::AlertReceived(alert) => {
                let why = match (refuses_certificates(*alert), &self.cert_file) {
                    (true, None) => "it asks for a certificate: give cert_file and key_file".to_owned(),
                    (true, Some(_)) => {
                        let path = name(&self.cert_file);
                        format!(
                            "it refuses the certificate {path} ({alert:?}): it may have expired ('openssl x509 -noout -enddate \
                             -in {path}'), not be signed by a certificate in etcd's --trusted-ca-file, or not be meant for clients"
                        )
                    }
                    (false, _) => format!("it breaks TLS off ({alert:?})"),
                };
                return Error::Unwelcome { endpoint, why };
            }
            rustls::Error::InvalidMessage(_) => {
                "it does not speak TLS; the endpoint of an etcd without begins with http://".to_owned()
            }
            other => format!("TLS fails ({other})"),
        };
        Error::Untrusted { endpoint, why }
    }

    /// Why etcd's certificate is not accepted.
    fn distrust(&self, error: &CertificateError) -> String {
        use CertificateError as E;
        match error {
            E::Expired => {
                "its certificate has expired: it has to be renewed, or the clock here is wrong".into()
            }
            E::ExpiredContext { time, not_after } => format!(
                "its certificate expired {} ago: it has to be renewed, or the clock here is wrong",
                between(*not_after, *time)
            ),
            E::NotValidYet => {
                "its certificate is not valid yet: a clock is wrong, here or where it was made".into()
            }
            E::NotValidYetContext { time, not_before } => format!(
                "its certificate will not be valid for another {}: a clock is wrong, here or where it was made",
                between(*time, *not_before)
            ),
            E::UnknownIssuer | E::BadSignature => format!(
                "its certificate is not signed by a certificate in ca_file {}: that has to be the certificate of etcd's CA, \
                 followed by those between, if etcd does not send them",
                self.ca_file.as_deref().unwrap_or(Path::new("?")).display()
            ),
            E::NotValidForName => "its certificate is for another name".into(),
            E::NotValidForNameContext { presented, .. } if presented.is_empty() => {
                "its certificate is for no name: it has to have the endpoint's host as a subjectAltName"
                    .into()
            }
            E::NotValidForNameContext { expected, presented } => format!(
                "its certificate is not for {} but for {}: give the endpoint by a name that is in it, or make a certificate \
                 with this subjectAltName",
                expected.to_str(),
                presented.join(", ")
            ),
            E::InvalidPurpose | E::InvalidPurposeContext { .. } => {
                "its certificate is not meant for servers: it needs the extendedKeyUsage serverAuth".into()
            }
            other => match format!("{other:?}") {
                text if text.contains("CaUsedAsEndEntity") => {
                    "its certificate is that of a CA: etcd needs one of its own, \
                     signed by the CA in ca_file, with basicConstraints CA:FALSE"
                        .into()
                }
                text if text.contains("UnsupportedCertVersion") => {
                    "its certificate is of an old version: it needs extensions, subjectAltName at least"
                        .into()
                }
                _ => format!("its certificate cannot be accepted ({other})"),
            },
        }
    }
}

/// Whether a server sends this alert when it requires a certificate, or another one. The alert differs
/// between versions of etcd.
fn refuses_certificates(alert: AlertDescription) -> bool {
    use AlertDescription as A;
    matches!(
        alert,
        A::NoCertificate
            | A::BadCertificate
            | A::UnsupportedCertificate
            | A::CertificateRevoked
            | A::CertificateExpired
            | A::CertificateUnknown
            | A::CertificateRequired
            | A::UnknownCA
            | A::AccessDenied
    )
}

fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|e| Error::File {
        what,
        path: path.to_owned(),
        why: crate::error::reason(&e),
    })
}

/// The certificates in a file, one at least.
fn certificates(what: &'static str, path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let bad = |why: String| Error::File { what, path: path.to_owned(), why };
    let all = CertificateDer::pem_slice_iter(text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| bad(format!("it is not PEM ({e})")))?;
    if all.is_empty() {
        return Err(bad(
            "there is no certificate in it, which begins with -----BEGIN CERTIFICATE-----".into()
        ));
    }
    Ok(all)
}

/// A time between two moments, in the largest unit that fits.
fn between(from: UnixTime, to: UnixTime) -> String {
    let seconds = to.as_secs().saturating_sub(from.as_secs());
    let (n, unit) = match seconds {
        0..120 => (seconds, "s"),
        120..7_200 => (seconds / 60, "minutes"),
        7_200..172_800 => (seconds / 3_600, "hours"),
        _ => (seconds / 86_400, "days"),
    };
    format!("{n} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn trust(set: impl FnOnce(&mut Trust)) -> Trust {
        let mut trust = Trust::default();
        set(&mut trust);
        trust
    }

    #[test]
    fn settings_fit_each_other() {
        let file = || Some(PathBuf::from("/f"));
        let (plain, tls) = (["http://e:1"], ["http://e:1", "https://e:2"]);
        assert_eq!(Trust::default().check(&plain), Ok(()));
        let whole = Trust {
            ca_file: file(),
            cert_file: file(),
            key_file: file(),
            user: Some("u".into()),
            password_file: file(),
        };
        assert_eq!(whole.check(&tls), Ok(()));
        let says = |trust: Trust, endpoints: &[&str], what: &str, word: &str| {
            let error = trust.check(endpoints).unwrap_err().to_string();
            assert!(error.starts_with(what) && error.contains(word), "{error}");
        };
        says(Trust::default(), &tls, "ca_file", "ca-certificates.crt");
        says(trust(|t| t.ca_file = file()), &plain, "ca_file", "there is none");
        says(trust(|t| t.cert_file = file()), &plain, "cert_file", "there is none");
        says(trust(|t| t.key_file = file()), &plain, "key_file", "there is none");
        says(trust(|t| (t.ca_file, t.cert_file) = (file(), file())), &tls, "cert_file", "key_file");
        says(trust(|t| (t.ca_file, t.key_file) = (file(), file())), &tls, "key_file", "cert_file");
        says(trust(|t| t.user = Some("u".into())), &plain, "user", "password_file");
        says(trust(|t| t.password_file = file()), &plain, "password_file", "user");
        says(trust(|t| (t.user, t.password_file) = (Some(String::new()), file())), &plain, "user", "empty");
    }

    #[test]
    fn times_have_units() {
        let at = |s| UnixTime::since_unix_epoch(Duration::from_secs(s));
        let text = |s: u64| between(at(1_000), at(1_000 + s));
        assert_eq!(
            [text(7), text(180), text(7_300), text(200_000)],
            ["7 s", "3 minutes", "2 hours", "2 days"]
        );
        assert_eq!(between(at(5), at(1)), "0 s");
    }

    /// Each message about a refusal states what to do.
    #[test]
    fn failures_have_a_remedy() {
        let bare = trust(|t| t.ca_file = Some("/ca.pem".into()));
        let with = Trust { cert_file: Some("/c.pem".into()), ..bare.clone() };
        let alert = |a| rustls::Error::AlertReceived(a);
        let says = |trust: &Trust, error: rustls::Error| trust.failure("https://e:1", &error).to_string();
        let asks = says(&bare, alert(AlertDescription::CertificateRequired));
        assert!(asks.contains("give cert_file and key_file"), "{asks}");
        let refuses = says(&with, alert(AlertDescription::BadCertificate));
        assert!(refuses.contains("openssl x509 -noout -enddate -in /c.pem"), "{refuses}");
        let other = says(&with, alert(AlertDescription::ProtocolVersion));
        assert!(other.contains("ProtocolVersion"), "{other}");
        let wrong = |e| says(&bare, rustls::Error::InvalidCertificate(e));
        assert!(
            wrong(CertificateError::UnknownIssuer).contains("not signed by a certificate in ca_file /ca.pem")
        );
        assert!(wrong(CertificateError::InvalidPurpose).contains("serverAuth"));
        let (time, not_after) = (Duration::from_secs(500_000), Duration::from_secs(100));
        let (time, not_after) = (UnixTime::since_unix_epoch(time), UnixTime::since_unix_epoch(not_after));
        assert!(wrong(CertificateError::ExpiredContext { time, not_after }).contains("expired 5 days ago"));
    }
}
