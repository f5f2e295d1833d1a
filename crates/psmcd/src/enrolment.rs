//! How a site becomes a peer by an invitation.
//!
//! An invitation is a key pair. The site that invites keeps the public half, in an `[[invitation]]` of its configuration; the private
//! half is in a [`JoinUri`], with that site's own key and its address. Whoever joins dials that address with the invitation's key for
//! its own ([`JOIN_ALPN`]), and [applies](apply): it says by which key it will be known, and is told its addresses. `docs/PROTOCOL.md`,
//! section 2.9, has the bytes.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ipnet::IpNet;
use psmc_net::keys::{KEY_LEN, PrivateKey, PublicKey};
use psmc_net::tls::{Dialer, Identity, JOIN_ALPN, TlsError};
use psmc_toml::{Name, ValueError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::config::Endpoint;

/// Its scheme, and the colon.
const SCHEME: &str = "psmc:";

/// The first byte of what follows. It changes when an older program would misunderstand a newer one.
const VERSION: u8 = 1;

/// Longest line that either side writes, in bytes.
const MAX_LINE: u64 = 16 * 1024;

/// How long either side waits for a line of the other. The one that invites writes its configuration in between.
const PATIENCE: Duration = Duration::from_secs(20);

/// What stands before the keys in what an applicant signs.
const CONTEXT: &[u8] = b"psmc-join/1\0";

/// All that a new site must know, in one line: who invites, where, and the secret that admits it.
pub struct JoinUri {
    /// What the new site is called.
    pub name: Name,
    /// Where the site that invites is reached.
    pub endpoint: Endpoint,
    /// The key of the invitation.
    pub secret: PrivateKey,
    /// The key of the site that invites.
    pub host: PublicKey,
}

impl JoinUri {
    /// The URI as it is sent; wiped from memory when dropped.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        let (name, endpoint) = (self.name.as_str(), self.endpoint.to_string());
        let mut bytes = Zeroizing::new(vec![VERSION]);
        for text in [name, &endpoint] {
            // Names and endpoints are shorter than 256 bytes.
            bytes.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes.extend_from_slice(self.secret.seed());
        bytes.extend_from_slice(self.host.as_bytes());
        Zeroizing::new(format!("{SCHEME}{}", URL_SAFE_NO_PAD.encode(&*bytes)))
    }
}

impl fmt::Debug for JoinUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, endpoint, host, .. } = self;
        f.debug_struct("JoinUri").field("name", name).field("endpoint", endpoint).field("host", host).finish()
    }
}

impl FromStr for JoinUri {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let remedy = "copy the whole line that `psmc invite` has printed, from `psmc:` to its end";
        let wrong = |reason: &str| ValueError::new(reason, remedy);
        let Some(encoded) = text.trim().strip_prefix(SCHEME) else {
            return Err(wrong("this is no invitation: it does not begin with psmc:"));
        };
        let decoded = URL_SAFE_NO_PAD.decode(encoded).map(Zeroizing::new);
        let decoded = decoded.map_err(|_| wrong("the invitation is damaged, or a part of it is missing"))?;
        match decoded.first() {
            Some(&VERSION) => {}
            Some(_) => {
                let reason = "the invitation was made by another version of PSMC";
                return Err(ValueError::new(reason, "install the same release on both sites"));
            }
            None => return Err(wrong("the invitation is empty")),
        }
        let parts = parse(&decoded[1..]);
        let (name, endpoint, secret, host) =
            parts.ok_or_else(|| wrong("the invitation is damaged, or a part of it is missing"))?;
        Ok(Self { name: name.parse()?, endpoint: endpoint.parse()?, secret, host })
    }
}

/// Name, endpoint, and the two keys.
fn parse(bytes: &[u8]) -> Option<(&str, &str, PrivateKey, PublicKey)> {
    let text = |bytes: &'_ [u8]| -> Option<usize> { Some(usize::from(*bytes.first()?)) };
    let (name, rest) = bytes.get(1..)?.split_at_checked(text(bytes)?)?;
    let (endpoint, rest) = rest.get(1..)?.split_at_checked(text(rest)?)?;
    let (secret, host) = rest.split_at_checked(KEY_LEN)?;
    let (name, endpoint) = (str::from_utf8(name).ok()?, str::from_utf8(endpoint).ok()?);
    Some((
        name,
        endpoint,
        PrivateKey::from_seed(secret.try_into().ok()?),
        PublicKey::from_bytes(host.try_into().ok()?),
    ))
}

/// What an applicant says.
#[derive(Debug, Serialize, Deserialize)]
struct Application {
    /// The key by which it will be known, base64.
    public_key: String,
    /// The signature by that key of the keys of host, invitation and applicant, base64: so that it is the applicant's own.
    signature: String,
}

/// What it is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", content = "value", rename_all = "snake_case")]
pub enum Answer {
    /// It is a peer now.
    Admitted(Admission),
    /// It is none.
    Refused {
        /// Why, for a person to read.
        message: String,
    },
}

/// What a new peer is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Admission {
    /// The name of the site that it has joined.
    pub host: String,
    /// Its own addresses in the tunnel, with the lengths of their networks' prefixes.
    pub addresses: Vec<IpNet>,
    /// The networks that it reaches through the tunnel.
    pub networks: Vec<IpNet>,
}

/// Why a site could not join.
#[derive(Debug, Error)]
pub enum JoinError {
    /// The handshake failed.
    #[error(transparent)]
    Tls(TlsError),
    /// The site that invites does not know the invitation.
    #[error(
        "the invitation is not valid (any more): it was used, withdrawn, or has long expired; ask for another one"
    )]
    Unknown,
    /// The conversation failed.
    #[error("the connection broke while joining; try again")]
    Io(#[source] io::Error),
    /// The other side has said something else than it should.
    #[error("the other side does not speak this protocol; install the same release on both sites")]
    Malformed,
    /// The site that invites refuses, in its own words.
    #[error("{0}")]
    Refused(String),
}

impl From<TlsError> for JoinError {
    fn from(error: TlsError) -> Self {
        if matches!(error, TlsError::KeyRefused) { Self::Unknown } else { Self::Tls(error) }
    }
}

impl From<io::Error> for JoinError {
    fn from(error: io::Error) -> Self {
        // A dialer learns of a refusal only when it reads: TLS 1.3 lets it finish first.
        let error = TlsError::from(error);
        if let TlsError::Io(source) = error { Self::Io(source) } else { error.into() }
    }
}

/// Applies as the owner of `key`, over a connection to the endpoint of `uri`.
///
/// # Errors
/// [`JoinError`]. Whoever has been admitted without learning of it may apply again with the same key.
pub async fn apply<S>(io: S, uri: &JoinUri, key: &PrivateKey) -> Result<Admission, JoinError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let identity = Identity::new(&uri.secret);
    let dialer = Dialer::for_protocol(&identity, uri.host, JOIN_ALPN);
    let mut stream = dialer.connect(io).await?.stream;
    let signature = key.sign(&signed(&uri.host, &identity.public(), &key.public()));
    let application =
        Application { public_key: key.public().to_string(), signature: STANDARD.encode(signature) };
    write_line(&mut stream, &application).await?;
    match read_line(&mut stream).await? {
        Answer::Admitted(admission) => Ok(admission),
        Answer::Refused { message } => Err(JoinError::Refused(message)),
    }
}

/// Hears the owner of the key `invitation` out: the key by which it wants to be known to `host`.
///
/// # Errors
/// [`JoinError`].
pub(crate) async fn hear<S>(
    stream: &mut S,
    host: &PublicKey,
    invitation: &PublicKey,
) -> Result<PublicKey, JoinError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Application { public_key, signature } = read_line(stream).await?;
    let key: PublicKey = public_key.parse().map_err(|_| JoinError::Malformed)?;
    let signature = STANDARD.decode(signature).ok().and_then(|bytes| bytes.try_into().ok());
    let signature = signature.ok_or(JoinError::Malformed)?;
    let is_own = key.has_signed(&signed(host, invitation, &key), &signature);
    if is_own { Ok(key) } else { Err(JoinError::Malformed) }
}

/// Answers an applicant, and closes the connection behind that.
///
/// # Errors
/// [`JoinError::Io`].
pub(crate) async fn answer<S>(stream: &mut S, answer: &Answer) -> Result<(), JoinError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    write_line(stream, answer).await?;
    timeout(PATIENCE, stream.shutdown()).await.map_err(|_| timed_out())?.map_err(JoinError::Io)
}

fn signed(host: &PublicKey, invitation: &PublicKey, key: &PublicKey) -> Vec<u8> {
    [CONTEXT, host.as_bytes(), invitation.as_bytes(), key.as_bytes()].concat()
}

async fn write_line<S: AsyncWrite + Unpin>(
    stream: &mut S,
    message: &impl Serialize,
) -> Result<(), JoinError> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    let written = async {
        stream.write_all(&line).await?;
        stream.flush().await
    };
    Ok(timeout(PATIENCE, written).await.map_err(|_| timed_out())??)
}

/// Reads a line. What follows it is nobody's: each side writes one.
async fn read_line<T: DeserializeOwned>(stream: &mut (impl AsyncRead + Unpin)) -> Result<T, JoinError> {
    let mut line = Vec::new();
    let read = async {
        let mut limited = stream.take(MAX_LINE);
        while !line.ends_with(b"\n") {
            if limited.read_buf(&mut line).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
        }
        Ok(())
    };
    timeout(PATIENCE, read).await.map_err(|_| timed_out())??;
    serde_json::from_slice(&line).map_err(|_| JoinError::Malformed)
}

fn timed_out() -> JoinError {
    JoinError::Io(io::Error::from(io::ErrorKind::TimedOut))
}

#[cfg(test)]
mod tests {
    use psmc_net::tls::{Acceptor, AllowedKeys};

    use super::*;

    fn uri() -> JoinUri {
        JoinUri {
            name: "van".parse().unwrap(),
            endpoint: "hq.example:5115".parse().unwrap(),
            secret: PrivateKey::generate(),
            host: PrivateKey::generate().public(),
        }
    }

    #[test]
    fn a_uri_survives_its_text() {
        let uri = uri();
        let text = uri.to_text();
        let read: JoinUri = format!(" {}\n", *text).parse().unwrap();
        assert_eq!((&read.name, &read.endpoint, read.host), (&uri.name, &uri.endpoint, uri.host));
        assert_eq!(read.secret.public(), uri.secret.public());
        assert!(!format!("{read:?}").contains("secret"));
    }

    #[test]
    fn a_uri_that_is_not_whole_is_refused() {
        let text = uri().to_text();
        for end in 0..text.len() {
            let error = text[..end].parse::<JoinUri>().unwrap_err();
            assert!(error.remedy().starts_with("copy the whole line"), "{end}: {error}");
        }
        let error = format!("{SCHEME}{}", URL_SAFE_NO_PAD.encode([9, 0])).parse::<JoinUri>().unwrap_err();
        assert!(error.reason().contains("another version"), "{error}");
    }

    /// What an applicant and its host come to, of which the host knows the key that it lets in.
    async fn meet(
        uri: &JoinUri,
        host: &PrivateKey,
        key: &PrivateKey,
    ) -> (Result<Admission, JoinError>, Option<PublicKey>) {
        let invitations = AllowedKeys::from_iter([uri.secret.public()]);
        let identity = Identity::new(host);
        let acceptor =
            Acceptor::new(&identity, AllowedKeys::default()).with_invitations(&identity, invitations);
        let (near, far) = tokio::io::duplex(1 << 16);
        let serve = async {
            let mut secured = acceptor.accept(far).await.ok()?;
            assert_eq!(secured.protocol, JOIN_ALPN);
            let heard = hear(&mut secured.stream, &host.public(), &secured.peer).await.ok()?;
            let admission = Admission { host: "hq".to_owned(), addresses: Vec::new(), networks: Vec::new() };
            answer(&mut secured.stream, &Answer::Admitted(admission)).await.ok()?;
            Some(heard)
        };
        tokio::join!(apply(near, uri, key), serve)
    }

    #[tokio::test]
    async fn an_applicant_is_known_by_its_own_key() {
        let (host, key) = (PrivateKey::generate(), PrivateKey::generate());
        let uri = JoinUri { host: host.public(), ..uri() };
        let (admitted, heard) = meet(&uri, &host, &key).await;
        assert_eq!(admitted.unwrap().host, "hq");
        assert_eq!(heard, Some(key.public()));
    }

    #[tokio::test]
    async fn another_host_is_none() {
        let (host, key) = (PrivateKey::generate(), PrivateKey::generate());
        let (admitted, heard) = meet(&uri(), &host, &key).await;
        assert!(matches!(admitted, Err(JoinError::Tls(TlsError::WrongKey { .. }))), "{admitted:?}");
        assert_eq!(heard, None);
    }

    #[tokio::test]
    async fn a_key_that_is_anothers_is_refused() {
        let (host, invitation, key) =
            (PrivateKey::generate(), PrivateKey::generate(), PrivateKey::generate());
        let thief = PrivateKey::generate();
        let signature = thief.sign(&signed(&host.public(), &invitation.public(), &key.public()));
        let application =
            Application { public_key: key.public().to_string(), signature: STANDARD.encode(signature) };
        let (mut near, mut far) = tokio::io::duplex(1 << 16);
        write_line(&mut near, &application).await.unwrap();
        let heard = hear(&mut far, &host.public(), &invitation.public()).await;
        assert!(matches!(heard, Err(JoinError::Malformed)), "{heard:?}");
    }
}
