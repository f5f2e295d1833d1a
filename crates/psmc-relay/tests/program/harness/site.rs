//! A site, as a relay sees it on its control port.

use std::time::Duration;

use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_net::tls::{Dialer, Identity, TlsError};
use psmc_wire::control::{LENGTH_LEN, message_length};
use psmc_wire::relay::{ALPN, Far, Hello, Message, RequestId, Reserve, Reserved, SignedGrant, VERSION};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// For what takes no time to speak of.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A site's connection to a relay, over whatever leads there.
pub(crate) struct Site<S = TcpStream> {
    pub(crate) stream: TlsStream<S>,
    next_request: u32,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Site<S> {
    /// Says hello over a connection to a relay, and hears the answer.
    pub(crate) async fn greet_over(
        io: S,
        key: &PrivateKey,
        relay: PublicKey,
        grant: Option<SignedGrant>,
    ) -> Result<(Self, Message), TlsError> {
        let dialer = Dialer::for_protocol(&Identity::new(key), relay, ALPN);
        let mut site = Self { stream: dialer.connect(io).await?.stream, next_request: 1 };
        site.say(&Message::Hello(Hello { version: VERSION, name: "site".to_owned(), grant })).await;
        match read_message(&mut site.stream).await {
            Ok(answer) => Ok((site, answer)),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn say(&mut self, message: &Message) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        // A relay that has refused the key has hung up; the next read says so.
        drop(self.stream.write_all(&bytes).await);
        drop(self.stream.flush().await);
    }

    pub(crate) async fn hear(&mut self) -> Message {
        tokio::time::timeout(PATIENCE, read_message(&mut self.stream)).await.unwrap().unwrap()
    }

    pub(crate) async fn ask(&mut self, request: impl FnOnce(RequestId) -> Message) -> Message {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.say(&request(id)).await;
        self.hear().await
    }

    pub(crate) async fn reserve(&mut self, far: Far) -> Reserved {
        let answer = self.ask(|request| Message::Reserve(Reserve { request, rate: None, far })).await;
        let Message::Reserved(reserved) = answer else { panic!("not reserved: {answer:?}") };
        reserved
    }
}

async fn read_message(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Message> {
    let mut length = [0; LENGTH_LEN];
    stream.read_exact(&mut length).await?;
    let mut body = vec![0; message_length(length).unwrap()];
    stream.read_exact(&mut body).await?;
    Ok(Message::decode(&body).unwrap())
}
