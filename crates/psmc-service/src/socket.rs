//! The local control socket of a program, one protocol for all: what is asked of it, and what it answers.
//!
//! Both sides write JSON, one object in a line of at most [`MAX_LINE`] bytes, or [`MAX_RESPONSE`], over a Unix stream socket. Each
//! request has one response, in order. Every line carries the [`VERSION`] of this protocol:
//!
//! ```json
//! {"version":1,"op":"status"}
//! {"version":1,"result":"error","value":{"message":"the daemon is shutting down"}}
//! ```
//!
//! What may be asked, and answered, is a [`Protocol`]; [`StatusOf`] is that of a program which can only be asked how it is.

mod client;
mod frame;
mod server;

use std::fmt::Debug;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use client::{Client, ClientError, TIMEOUT, only_socket};
pub use frame::{FrameError, MAX_LINE, MAX_RESPONSE, VERSION};
pub use server::{BindError, Call, Caller, MAX_CLIENTS, Server};

/// What is asked of a program on its socket, and what it answers.
pub trait Protocol: 'static {
    /// The program, as it is called.
    const PROGRAM: &'static str;
    /// What is asked.
    type Request: Serialize + DeserializeOwned + Debug + Send + Sync + 'static;
    /// What is answered.
    type Response: Reply;

    /// How long an answer may take because that is what is asked for.
    fn patience(_request: &Self::Request) -> Duration {
        Duration::ZERO
    }
}

/// What is answered to a request. A refusal is `{"result":"error","value":{"message":"…"}}`.
pub trait Reply: Serialize + DeserializeOwned + Debug + Send + 'static {
    /// It is not done, and why, for a person to read.
    fn refusal(message: String) -> Self;

    /// What was asked for.
    ///
    /// # Errors
    /// The message of a refusal.
    fn granted(self) -> Result<Self, String>;
}

/// What a program tells about itself that can be asked for nothing else.
pub trait Report: Serialize + DeserializeOwned + Debug + Send + 'static {
    /// The program, as it is called.
    const PROGRAM: &'static str;
    /// The directory with the sockets of those that have no place of their own.
    const DIRECTORY: &'static str;
}

/// The protocol of a program that tells `T` about itself.
#[derive(Debug)]
pub struct StatusOf<T>(PhantomData<T>);

/// What can be asked of such a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum StatusRequest {
    /// How it is.
    Status,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", content = "value", rename_all = "snake_case")]
pub enum StatusResponse<T> {
    /// How it is.
    Status(T),
    /// It cannot say.
    Error {
        /// Why, for a person to read.
        message: String,
    },
}

impl<T: Report> Protocol for StatusOf<T> {
    const PROGRAM: &'static str = T::PROGRAM;
    type Request = StatusRequest;
    type Response = StatusResponse<T>;
}

impl<T: Report> Reply for StatusResponse<T> {
    fn refusal(message: String) -> Self {
        Self::Error { message }
    }

    fn granted(self) -> Result<Self, String> {
        match self {
            Self::Error { message } => Err(message),
            granted @ Self::Status(_) => Ok(granted),
        }
    }
}

impl<T: Report> Server<StatusOf<T>> {
    /// Answers whoever asks with what `report` says; that the program is about to end, if it says nothing.
    pub async fn tell<F: Future<Output = Option<T>>>(mut self, report: impl Fn() -> F) {
        while let Some(call) = self.next_call().await {
            match report().await {
                Some(status) => call.respond(StatusResponse::Status(status)),
                // The client is told when it is dropped.
                None => drop(call),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tokio::task::spawn_blocking;

    use super::*;

    /// What a program of tests tells about itself.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub(super) struct Test {
        pub(super) number: u32,
    }

    impl Report for Test {
        const PROGRAM: &'static str = "psmc-test";
        const DIRECTORY: &'static str = "/run/psmc-test";
    }

    #[derive(Debug, Serialize, Deserialize)]
    struct Other {
        word: String,
    }

    impl Report for Other {
        const PROGRAM: &'static str = "psmc-other";
        const DIRECTORY: &'static str = "/run/psmc-other";
    }

    async fn status<T: Report>(path: &Path) -> Result<T, ClientError> {
        let path = path.to_owned();
        spawn_blocking(move || Client::<StatusOf<T>>::connect(&path)?.status()).await.unwrap()
    }

    #[tokio::test]
    async fn whoever_asks_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.sock");
        let nobody = status::<Test>(&path).await.unwrap_err().to_string();
        assert!(nobody.starts_with("no psmc-test answers on "), "{nobody}");
        let server = Server::<StatusOf<Test>>::bind(&path).unwrap();
        tokio::spawn(server.tell(|| async { Some(Test { number: 7 }) }));
        assert_eq!(status::<Test>(&path).await.unwrap(), Test { number: 7 });
        let other = status::<Other>(&path).await.unwrap_err().to_string();
        assert!(other.starts_with("cannot talk to psmc-other: the line is not a message"), "{other}");
    }
}
