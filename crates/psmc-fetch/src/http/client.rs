//! Requests, one after another, over a connection that is kept.

use std::ops::Range;
use std::sync::Arc;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT_ENCODING, HOST, LOCATION, RANGE, USER_AGENT};
use hyper::{Request, Response};

use super::connect::{Connector, Sender, Via};
use super::error::MirrorError;
use super::head::Head;
use super::url::Url;

/// A mirror that sends us around more often will not end: browsers allow 20, but nobody needs more than two or three.
const MOST_REDIRECTS: usize = 8;

/// A client with one connection at most.
pub(crate) struct Client {
    connector: Arc<Connector>,
    via: Option<Via>,
    connection: Option<(Url, Sender)>,
}

/// An answer, of which the body is still to be read.
pub(crate) struct Answer {
    /// Who answered in the end.
    pub(crate) url: Url,
    pub(crate) head: Head,
    body: Incoming,
}

impl Client {
    /// A client whose connections leave there, or wherever routes lead.
    pub(crate) fn new(connector: Arc<Connector>, via: Option<Via>) -> Self {
        Self { connector, via, connection: None }
    }

    /// Asks for some bytes of a file, or for all of it, wherever redirects lead.
    pub(crate) async fn get(&mut self, url: &Url, range: Option<Range<u64>>) -> Result<Answer, MirrorError> {
        let mut url = url.clone();
        for _ in 0..=MOST_REDIRECTS {
            let response = self.ask(&url, range.as_ref()).await?;
            let Some(next) = redirect(&url, &response)? else {
                let head = Head::read(&response)?;
                return Ok(Answer { url, head, body: response.into_body() });
            };
            // What it says about the redirect is of no interest, but would have to be read.
            self.close();
            url = next;
        }
        Err(MirrorError::Redirects(MOST_REDIRECTS))
    }

    /// Closes the connection: its answer is not over, or makes no sense.
    pub(crate) fn close(&mut self) {
        self.connection = None;
    }

    async fn ask(
        &mut self,
        url: &Url,
        range: Option<&Range<u64>>,
    ) -> Result<Response<Incoming>, MirrorError> {
        if let Some(mut sender) = self.kept(url).await {
            // The server may just have closed a connection that nobody used: that is no failure.
            if let Ok(response) = sender.send_request(request(url, range)).await {
                self.connection = Some((url.clone(), sender));
                return Ok(response);
            }
        }
        let mut sender = self.connector.connect(url, self.via.as_ref()).await?;
        let response = sender.send_request(request(url, range)).await.map_err(MirrorError::Broken)?;
        self.connection = Some((url.clone(), sender));
        Ok(response)
    }

    /// The connection, if it leads there and still works.
    async fn kept(&mut self, url: &Url) -> Option<Sender> {
        let (server, mut sender) = self.connection.take()?;
        let is_ready = server.is_same_server(url) && sender.ready().await.is_ok();
        is_ready.then_some(sender)
    }
}

impl Answer {
    /// The next bytes, or `None` after the last.
    pub(crate) async fn bytes(&mut self) -> Result<Option<Bytes>, MirrorError> {
        loop {
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            // Else it is a trailer.
            if let Ok(bytes) = frame.map_err(MirrorError::Broken)?.into_data() {
                return Ok(Some(bytes));
            }
        }
    }
}

fn request(url: &Url, range: Option<&Range<u64>>) -> Request<Empty<Bytes>> {
    let mut request = Request::new(Empty::new());
    let headers = request.headers_mut();
    let agent = concat!("psmc/", env!("CARGO_PKG_VERSION"));
    let range =
        range.map(|Range { start, end }| format!("bytes={start}-{}", end.saturating_sub(1).max(*start)));
    let values = [
        (HOST, Some(url.authority().to_owned())),
        (USER_AGENT, Some(agent.to_owned())),
        (ACCEPT_ENCODING, Some("identity".to_owned())),
        (RANGE, range),
    ];
    for (name, value) in values.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        // All of them are visible ASCII: an authority that is not makes no URL.
        if let Ok(value) = value.parse() {
            headers.insert(name, value);
        }
    }
    // A URL of which this is no target of a request is refused before.
    if let Ok(uri) = url.path_and_query().parse() {
        *request.uri_mut() = uri;
    }
    request
}

/// Where an answer sends us, if anywhere.
fn redirect(url: &Url, response: &Response<Incoming>) -> Result<Option<Url>, MirrorError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = response.headers().get(LOCATION).ok_or(MirrorError::Nowhere)?;
    let next = url.join(location.as_bytes()).map_err(MirrorError::Redirect)?;
    if url.is_https() && !next.is_https() {
        return Err(MirrorError::Downgrade(next.to_string()));
    }
    Ok(Some(next))
}
