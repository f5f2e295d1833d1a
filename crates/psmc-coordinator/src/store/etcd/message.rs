//! What is said to etcd's JSON gateway, and what it answers: bytes are in base64, numbers of 64 bits are strings, and
//! what is zero or empty is left out.

use serde::{Deserialize, Serialize};

/// `/v3/kv/range`: what is there.
pub(super) const RANGE: &str = "/v3/kv/range";
/// `/v3/kv/txn`: all of it, or nothing.
pub(super) const TXN: &str = "/v3/kv/txn";
/// `/v3/lease/grant`.
pub(super) const GRANT: &str = "/v3/lease/grant";
/// `/v3/lease/keepalive`.
pub(super) const KEEP_ALIVE: &str = "/v3/lease/keepalive";
/// `/v3/lease/revoke`.
pub(super) const REVOKE: &str = "/v3/lease/revoke";

/// The keys from `key` on, up to `range_end` without it; the one key if that is empty.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Range {
    #[serde(with = "bytes")]
    pub(super) key: Vec<u8>,
    #[serde(with = "bytes", skip_serializing_if = "Vec::is_empty")]
    pub(super) range_end: Vec<u8>,
    /// As many at most; all, if it is 0.
    #[serde(with = "number")]
    pub(super) limit: i64,
    /// `DESCEND` for the last key first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sort_order: Option<&'static str>,
}

/// What must hold of a key. A revision of 0 says that it isn't there.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "target")]
pub(super) enum Compare {
    /// It was made at this revision.
    #[serde(rename = "CREATE")]
    Created {
        #[serde(with = "bytes")]
        key: Vec<u8>,
        #[serde(with = "number", rename = "create_revision")]
        revision: i64,
    },
    /// It was changed last at this revision.
    #[serde(rename = "MOD")]
    Changed {
        #[serde(with = "bytes")]
        key: Vec<u8>,
        #[serde(with = "number", rename = "mod_revision")]
        revision: i64,
    },
}

/// A step of a transaction.
#[derive(Clone, Debug, Serialize)]
pub(super) enum Step {
    #[serde(rename = "request_put")]
    Put {
        #[serde(with = "bytes")]
        key: Vec<u8>,
        #[serde(with = "bytes")]
        value: Vec<u8>,
        /// The lease with which it goes; none, if it is 0.
        #[serde(with = "number")]
        lease: i64,
    },
    #[serde(rename = "request_range")]
    Range(Range),
    #[serde(rename = "request_delete_range")]
    Delete {
        #[serde(with = "bytes")]
        key: Vec<u8>,
        #[serde(with = "bytes")]
        range_end: Vec<u8>,
    },
}

impl Step {
    /// A key that stays.
    pub(super) fn put(key: Vec<u8>, value: Vec<u8>) -> Self {
        Self::Put { key, value, lease: 0 }
    }
}

/// A transaction.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Txn {
    pub(super) compare: Vec<Compare>,
    /// What is done if all of that holds.
    pub(super) success: Vec<Step>,
    /// What is done if not.
    pub(super) failure: Vec<Step>,
}

/// A lease that is wanted.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Grant {
    /// For how many seconds.
    #[serde(with = "number", rename = "TTL")]
    pub(super) ttl: i64,
}

/// A lease that there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LeaseId {
    #[serde(with = "number", default, rename = "ID")]
    pub(super) id: i64,
}

/// Where etcd stands.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Header {
    #[serde(with = "number", default)]
    pub(super) revision: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct RangeAnswer {
    #[serde(default)]
    pub(super) kvs: Vec<KeyValue>,
}

/// A key that is there.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct KeyValue {
    #[serde(with = "bytes", default)]
    pub(super) key: Vec<u8>,
    #[serde(with = "bytes", default)]
    pub(super) value: Vec<u8>,
    #[serde(with = "number", default)]
    pub(super) create_revision: i64,
    #[serde(with = "number", default)]
    pub(super) mod_revision: i64,
    #[serde(with = "number", default)]
    pub(super) lease: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct TxnAnswer {
    #[serde(default)]
    pub(super) header: Header,
    /// Whether what was to hold has held.
    #[serde(default)]
    pub(super) succeeded: bool,
    #[serde(default)]
    responses: Vec<StepAnswer>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct StepAnswer {
    #[serde(default)]
    response_range: RangeAnswer,
}

impl TxnAnswer {
    /// What the step of this number has found: the first key, if there is one.
    pub(super) fn found(&self, step: usize) -> Option<&KeyValue> {
        self.responses.get(step)?.response_range.kvs.first()
    }
}

/// How long a lease lasts from when etcd says so.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Lasts {
    /// Seconds; 0 if the lease is gone.
    #[serde(with = "number", default, rename = "TTL")]
    pub(super) ttl: i64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Granted {
    #[serde(flatten)]
    pub(super) lease: LeaseId,
    #[serde(flatten)]
    pub(super) lasts: Lasts,
}

/// An answer of a stream.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Streamed<T> {
    pub(super) result: T,
}

/// An answer of which nothing matters.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Done {}

/// Behind all keys that begin with `prefix`, which ends with `/`.
pub(super) fn behind(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

mod bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(from)?).map_err(D::Error::custom)
    }
}

mod number {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields so")]
    pub(super) fn serialize<S: Serializer>(number: &i64, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_as_the_gateway_wants_them() {
        let txn = Txn {
            compare: vec![Compare::Created { key: b"lead".to_vec(), revision: 0 }],
            success: vec![Step::Put { key: b"lead".to_vec(), value: b"x".to_vec(), lease: 7 }],
            failure: vec![Step::Range(Range { key: b"lead".to_vec(), ..Range::default() })],
        };
        let text = serde_json::to_string(&txn).unwrap();
        assert_eq!(
            text,
            r#"{"compare":[{"target":"CREATE","key":"bGVhZA==","create_revision":"0"}],"success":[{"request_put":{"key":"bGVhZA==","value":"eA==","lease":"7"}}],"failure":[{"request_range":{"key":"bGVhZA==","limit":"0"}}]}"#
        );
    }

    #[test]
    fn answers_are_read_as_etcd_writes_them() {
        // Of etcd 3.4.23.
        let text = r#"{"header":{"cluster_id":"324952591200643719","revision":"2","raft_term":"2"},"responses":[{"response_range":{"header":{"revision":"2"},"kvs":[{"key":"bGVhZA==","create_revision":"2","mod_revision":"2","version":"1","value":"eA==","lease":"2324035541210645765"}],"count":"1"}}]}"#;
        let answer: TxnAnswer = serde_json::from_str(text).unwrap();
        let found = answer.found(0).unwrap();
        assert!(!answer.succeeded && answer.found(1).is_none());
        assert_eq!(
            (found.create_revision, found.lease, &found.value[..]),
            (2, 2_324_035_541_210_645_765, &b"x"[..])
        );
        let gone = r#"{"result":{"header":{"revision":"3"},"ID":"2324035541210645765"}}"#;
        assert_eq!(serde_json::from_str::<Streamed<Lasts>>(gone).unwrap().result.ttl, 0);
        let granted: Granted = serde_json::from_str(r#"{"header":{},"ID":"9","TTL":"5"}"#).unwrap();
        assert_eq!((granted.lease.id, granted.lasts.ttl), (9, 5));
    }

    #[test]
    fn a_prefix_ends_before_what_is_beside_it() {
        assert_eq!(behind("a/b/"), b"a/b0");
    }
}
