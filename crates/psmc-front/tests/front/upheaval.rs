//! Another configuration, and the end, while requests are on their way.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use crate::harness::{Front, OK, Server, connect, head, read_to, rest, wait_for};

/// Clients that ask without a break, each on a connection of its own, and what they have seen.
struct Load {
    is_over: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(address: SocketAddr) -> Self {
        let (is_over, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let clients = (0..4)
            .map(|number| {
                let (is_over, asked) = (is_over.clone(), asked.clone());
                thread::spawn(move || {
                    let mut client = connect(address);
                    while !is_over.load(Ordering::SeqCst) {
                        client.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
                        assert!(head(&mut client).starts_with("HTTP/1.1 200 "));
                        read_to(&mut client, "ok\n");
                        asked.fetch_add(1, Ordering::SeqCst);
                        // Half of them begin anew each time.
                        if number % 2 == 0 {
                            client = connect(address);
                        }
                    }
                })
            })
            .collect();
        Self { is_over, asked, clients }
    }

    fn wait_for_more(&self) {
        let before = self.asked.load(Ordering::SeqCst);
        wait_for("requests", || (self.asked.load(Ordering::SeqCst) > before + 50).then_some(()));
    }

    fn end(self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.clients.into_iter().for_each(|client| client.join().unwrap());
    }
}

#[test]
fn a_reload_under_load_loses_no_request() {
    let servers = [Server::answering(OK), Server::answering(OK)];
    let front = Front::start(&[servers[0].address], "", "");
    let load = Load::start(front.address);
    load.wait_for_more();
    for round in 0..6 {
        let both = [&servers[round % 2], &servers[(round + 1) % 2]].map(|server| server.address);
        let classes =
            "[[class]]\nname = \"some\"\nmatch = { path = \"/some\" }\n[[class]]\nname = \"rest\"\n";
        let sections = if round % 2 == 0 { classes } else { "" };
        front.reload(if round % 3 == 0 { &both } else { &both[..1] }, "", sections);
        let classes = if round % 2 == 0 { 2 } else { 1 };
        wait_for("the reload", || {
            (front.status()["classes"].as_array().unwrap().len() == classes).then_some(())
        });
        load.wait_for_more();
    }
    load.end();
    assert!(servers.iter().all(|server| server.connections() > 0));
    // A file that is wrong changes nothing.
    front.reload(&[], "", "");
    assert!(front.get("/", "").starts_with("HTTP/1.1 200 "));
}

#[test]
fn the_end_waits_for_answers() {
    let (go, wait) = mpsc::channel();
    let (say, said) = mpsc::channel();
    let wait = std::sync::Mutex::new(wait);
    let server = Server::start(move |stream, _| {
        head(stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nbegi").unwrap();
        say.send(()).unwrap();
        wait.lock().unwrap().recv().unwrap();
        stream.write_all(b"end\n").unwrap();
    });
    let mut front = Front::start(&[server.address], "", "");
    let mut idle = front.connect();
    let mut client = front.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    said.recv().unwrap();
    front.signal("TERM");
    // Nothing is accepted any more, and what asks for nothing is closed.
    wait_for("the end of listening", || std::net::TcpStream::connect(front.address).is_err().then_some(()));
    assert_eq!(rest(&mut idle).unwrap(), "");
    assert!(front.child.try_wait().unwrap().is_none());
    go.send(()).unwrap();
    assert!(rest(&mut client).unwrap().ends_with("begiend\n"));
    assert!(wait_for("the end", || front.child.try_wait().unwrap()).success());
}
