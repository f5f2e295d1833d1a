//! Alerts that a coordinator hears of from other programs.

use psmc_coordinator::http::{self, Raised};
use psmc_coordinator::suricata;

/// A line of Suricata's eve-log, or the body of a request to the hook.
pub fn alert(bytes: &[u8]) {
    if let Ok(Some((_, signature))) = suricata::alert(bytes) {
        let text = String::from_utf8_lossy(bytes);
        assert!(text.contains("signature_id"), "{signature} out of nothing");
    }
    if let Ok(Raised { alert, .. }) = http::parse::<Raised>(bytes) {
        let text = serde_json::to_string(&alert).expect("what was read can be written");
        let again: psmc_signal::Alert =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(format!("{again:?}"), format!("{alert:?}"));
    }
}
