//! Notifications without end.

use std::net::{TcpListener, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, OpCode, Query};
use hickory_proto::rr::RecordType;
use psmc_testbed::netns::Namespace;

use crate::harness::{name, ours, text_of};

/// How long it storms: ten fetches are due in it, and hundreds of notifications come.
const STORM: Duration = Duration::from_secs(1);

#[test]
fn a_storm_of_notifications_asks_the_primary_ten_times_in_a_second() {
    let namespace = Arc::new(Namespace::new().unwrap());
    text_of(&namespace, Command::new("ip").args(["address", "add", "127.0.0.9/8", "dev", "lo"]));
    let fetches = Arc::new(AtomicUsize::new(0));
    let (inside, counted) = (namespace.clone(), fetches.clone());
    let listener = inside.run(|| TcpListener::bind("127.0.0.9:53").unwrap());
    // A primary that hangs up; it ends with the test.
    spawn(move || {
        while listener.accept().is_ok() {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let fixed = "[[zone]]\nname = \"example.com\"\nfile = \"zone\"\n";
    let zones = format!("{fixed}[[zone]]\nname = \"storm.test\"\nprimary = \"127.0.0.9\"\n");
    let _ours = ours(&namespace, "127.0.0.1", &zones);
    let mut message = Message::query();
    message.metadata.op_code = OpCode::Notify;
    message.add_query(Query::query(name("storm.test."), RecordType::SOA));
    let notification = message.to_vec().unwrap();
    let (before, began) = (fetches.load(Ordering::Relaxed), Instant::now());
    let mut sent = 0;
    namespace.run(|| {
        let socket = UdpSocket::bind("127.0.0.9:0").unwrap();
        while began.elapsed() < STORM {
            socket.send_to(&notification, "127.0.0.1:53").unwrap();
            sent += 1;
            sleep(Duration::from_millis(2));
        }
    });
    let asked = fetches.load(Ordering::Relaxed) - before;
    let due = began.elapsed().as_millis() / 100 + 2;
    assert!(asked > 0 && asked as u128 <= due, "{asked} fetches for {sent} notifications, {due} were due");
}
