//! What is said in JSON, to daemons and between them: messages of the signal protocol, requests and answers on control
//! sockets.

use std::fmt::Debug;

use psmc_api::{Request, Response};
use psmc_service::socket::StatusRequest;
use psmc_signal::Message;
use psmc_signal::parts::Parts;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A line of a control socket of `psmcd`, in either direction, and of any other daemon.
pub fn socket(bytes: &[u8]) {
    reads_back_the_same::<Request>(bytes);
    reads_back_the_same::<Response>(bytes);
    reads_back_the_same::<StatusRequest>(bytes);
}

/// Messages of the signal protocol, one in a line, and the lists that come in parts.
pub fn signal(bytes: &[u8]) {
    let mut relays = Parts::default();
    for line in bytes.split(|byte| *byte == b'\n').take(MAX_MESSAGES) {
        reads_back_the_same::<Message>(line);
        let Ok(Message::Mitigation(mitigation)) = serde_json::from_slice(line) else { continue };
        let parts = Message::mitigation(&mitigation);
        assert!(!parts.is_empty(), "nothing is told");
        if let Ok(Some(all)) = relays.join(mitigation.id, mitigation.relays, mitigation.is_last) {
            assert!(all.len() <= psmc_signal::parts::MAX_RELAYS);
        }
    }
}

fn reads_back_the_same<T: Serialize + DeserializeOwned + Debug>(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<T>(bytes) else { return };
    let text = serde_json::to_string(&value).expect("what was read can be written");
    let again: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(format!("{again:?}"), format!("{value:?}"));
}

/// So that an execution ends.
const MAX_MESSAGES: usize = 100;
