//! TCP connections that the sites end (`tcp = "split"`), between hosts that know nothing of it.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use nix::sys::signal::Signal;
use psmc_api::{EndedFlow, Flows, StreamsStatus};
use psmc_net::keys::PrivateKey;
use psmc_testbed::poll::wait_for;
use socket2::{SockRef, TcpKeepalive};

use crate::harness::{Capture, Family, Plan, Site, Tunnel, download};

const PATIENCE: Duration = Duration::from_secs(20);

const SPLIT: &str = "\n[[class]]\nname = \"web\"\nprotocol = [\"tcp\"]\ntcp = \"split\"\n";

const PORT: u16 = 8081;

fn plan() -> Plan {
    Plan { mbit: Some(50), classes: SPLIT, ..Plan::default() }
}

fn streams(site: &Site) -> StreamsStatus {
    site.peer().streams.expect("both sites split")
}

/// Who waits for connections on a site, and its address in the tunnel.
fn listen(site: &Site, family: Family) -> (TcpListener, SocketAddr) {
    let address = SocketAddr::new(site.inner(family), PORT);
    (site.namespace.run(|| TcpListener::bind(address)).unwrap(), address)
}

fn call(site: &Site, address: SocketAddr) -> io::Result<TcpStream> {
    let socket = site.namespace.run(|| TcpStream::connect_timeout(&address, PATIENCE))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Both ends of a connection from the van to the headquarters.
fn connection(tunnel: &Tunnel, listener: &TcpListener, address: SocketAddr) -> (TcpStream, TcpStream) {
    let before = streams(&tunnel.van).opened;
    let client = call(&tunnel.van, address).unwrap();
    let (server, from) = listener.accept().unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(from, client.local_addr().unwrap(), "the server sees its client");
    assert_eq!(streams(&tunnel.van).opened, before + 1);
    (client, server)
}

/// What is said when all has been read that there was.
fn error_at_end(mut socket: &TcpStream) -> ErrorKind {
    io::copy(&mut socket, &mut io::sink()).expect_err("it was reset").kind()
}

fn greet(from: &mut TcpStream, to: &mut TcpStream) {
    from.write_all(b"hello").unwrap();
    to.set_read_timeout(Some(PATIENCE)).unwrap();
    to.read_exact(&mut [0; 5]).unwrap();
}

#[test]
fn connections_end_at_the_sites_and_hosts_notice_nothing() {
    let tunnel = Tunnel::start(plan());
    for family in [Family::V4, Family::V6] {
        download(&tunnel.van, &tunnel.hq, tunnel.hq.inner(family), 8_000_000);
    }
    let counted = streams(&tunnel.van);
    assert_eq!(counted.opened, 2);
    assert!(counted.rx_bytes > 16_000_000, "{counted:?}");
    wait_for("no streams", PATIENCE, || {
        (streams(&tunnel.van).open + streams(&tunnel.hq).open == 0).then_some(())
    });

    let (listener, address) = listen(&tunnel.hq, Family::V4);
    let (mut client, mut server) = connection(&tunnel, &listener, address);
    // Each direction ends by itself.
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut heard = String::new();
    server.read_to_string(&mut heard).unwrap();
    server.write_all(b"answer").unwrap();
    client.read_exact(&mut [0; 3]).unwrap();
    // Whoever asks is told of it.
    let shown = |site: &Site| {
        let shown = site.psmc(&["flows", "--ended", "--json"]).stdout;
        let Flows { ended, .. } = serde_json::from_slice(&shown).unwrap();
        let [one] = <[EndedFlow; 1]>::try_from(ended).expect("there is one");
        assert_eq!((one.server.parse(), one.client.parse()), (Ok(address), Ok(client.local_addr().unwrap())));
        (one.is_from_here, one.stands, one.first_byte_s.is_some(), one.tx_bytes, one.rx_bytes)
    };
    assert_eq!(shown(&tunnel.van), (true, true, true, 8, 6));
    assert_eq!(shown(&tunnel.hq), (false, true, true, 6, 8));
    drop(server);
    client.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "questionwer");

    // A reset arrives as one, from either side.
    let reset = |socket: TcpStream| SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap();
    let (client, server) = connection(&tunnel, &listener, address);
    reset(client);
    assert_eq!(error_at_end(&server), ErrorKind::ConnectionReset);
    let (client, server) = connection(&tunnel, &listener, address);
    reset(server);
    assert_eq!(error_at_end(&client), ErrorKind::ConnectionReset);

    // Nobody listens there any more.
    drop(listener);
    assert_eq!(call(&tunnel.van, address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    wait_for("no streams", PATIENCE, || {
        (streams(&tunnel.van).open + streams(&tunnel.hq).open == 0).then_some(())
    });
}

/// As Wireshark judges the segments between each site and its host.
#[test]
fn segments_are_as_they_should_be_at_both_hosts() {
    let tunnel = Tunnel::start(plan());
    let directory = tempfile::tempdir().unwrap();
    let mut captures = [&tunnel.van, &tunnel.hq].map(|site| {
        let file = directory.path().join(format!("{}.pcapng", site.end.name));
        Capture::start(&site.namespace, &["psmc0"], &file)
    });
    download(&tunnel.van, &tunnel.hq, tunnel.hq.inner(Family::V6), 3_000_000);
    let (listener, address) = listen(&tunnel.hq, Family::V4);
    let (mut client, mut server) = connection(&tunnel, &listener, address);
    let often = TcpKeepalive::new().with_time(Duration::from_secs(1)).with_interval(Duration::from_secs(1));
    for socket in [&client, &server] {
        SockRef::from(socket).set_tcp_keepalive(&often).unwrap();
    }
    greet(&mut client, &mut server);
    // Both ask their site once or twice meanwhile.
    std::thread::sleep(Duration::from_millis(2500));
    greet(&mut server, &mut client);
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server.read(&mut [0]).unwrap(), 0);
    drop(server);
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    for capture in &mut captures {
        capture.end();
        let counted = |filter: &str| capture.matching(filter).len();
        assert_eq!(capture.matching("_ws.malformed || _ws.expert.severity == \"Error\""), [""; 0]);
        let options = ["mss_val", "sack_perm", "wscale", "timestamp.tsval"];
        let negotiated: Vec<_> = options.iter().map(|option| format!("tcp.options.{option}")).collect();
        let negotiated = negotiated.join(" && ");
        assert_eq!(capture.matching(&format!("tcp.flags.syn == 1 && !({negotiated})")), [""; 0]);
        assert!(counted("tcp.flags.syn == 1") >= 4);
        let [asked, answered] = ["tcp.analysis.keep_alive", "tcp.analysis.keep_alive_ack"].map(counted);
        assert!(asked > 0 && answered >= asked, "{asked} keep-alives, {answered} answers");
    }
}

#[test]
fn what_arrives_is_whole_while_paths_come_and_go() {
    let tunnel = Tunnel::start(plan());
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for link in (1..=2).cycle().take_while(|_| !done.load(std::sync::atomic::Ordering::Relaxed)) {
                let name = tunnel.van.end.link(link);
                tunnel.van.run(&["ip", "link", "set", &name, "down"]);
                tunnel.van.wait_for_path(&format!("van-link{link}"), &[psmc_api::PathState::Dead], PATIENCE);
                tunnel.van.run(&["ip", "link", "set", &name, "up"]);
                tunnel.van.wait_for_path(
                    &format!("van-link{link}"),
                    &[psmc_api::PathState::Active],
                    PATIENCE,
                );
            }
        });
        download(&tunnel.van, &tunnel.hq, tunnel.hq.inner(Family::V4), 30_000_000);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(streams(&tunnel.van).opened, 1);
}

#[test]
fn a_site_that_ends_or_dies_leaves_no_host_waiting() {
    let mut tunnel = Tunnel::start(plan());
    let (listener, address) = listen(&tunnel.hq, Family::V4);
    for dies in [false, true] {
        let (mut client, mut server) = connection(&tunnel, &listener, address);
        greet(&mut client, &mut server);
        let others: Vec<_> = (0..50).map(|_| connection(&tunnel, &listener, address)).collect();
        if dies {
            tunnel.hq.kill();
        } else {
            tunnel.hq.signal(Signal::SIGTERM);
            tunnel.hq.wait_for_end();
            for (near, far) in others.iter().map(|(near, far)| (near, far)).chain([(&client, &server)]) {
                assert_eq!([near, far].map(error_at_end), [ErrorKind::ConnectionReset; 2]);
            }
        }
        tunnel.hq.start();
        if dies {
            assert_eq!(error_at_end(&client), ErrorKind::ConnectionReset);
        }
        tunnel.wait_until_up();
        wait_for("streams again", PATIENCE, || tunnel.van.peer().streams.map(drop));
    }
}

#[test]
fn a_peer_that_is_removed_loses_its_connections_at_once() {
    let tunnel = Tunnel::start(plan());
    let (listener, address) = listen(&tunnel.hq, Family::V4);
    let (mut client, mut server) = connection(&tunnel, &listener, address);
    greet(&mut client, &mut server);
    let others: Vec<_> = (0..20).map(|_| connection(&tunnel, &listener, address)).collect();
    let text = fs::read_to_string(tunnel.hq.file("toml")).unwrap();
    let other = PrivateKey::generate().public().to_string();
    tunnel.hq.reload(&text.replace(&tunnel.van.key.public().to_string(), &other), "");
    assert_eq!(tunnel.hq.peer().public_key, other);
    for (near, far) in others.iter().map(|(near, far)| (near, far)).chain([(&client, &server)]) {
        assert_eq!([near, far].map(error_at_end), [ErrorKind::ConnectionReset; 2]);
    }
    // It does not get in any more.
    let refused = tunnel.hq.counter("control_unknown_key");
    wait_for("a refusal", PATIENCE, || (tunnel.hq.counter("control_unknown_key") > refused).then_some(()));
}

#[test]
fn connections_are_ended_when_both_files_say_so_and_go_on_when_they_no_more_do() {
    let tunnel = Tunnel::start(Plan { classes: "", ..plan() });
    let (listener, address) = listen(&tunnel.hq, Family::V4);
    let text = |site: &Site| std::fs::read_to_string(site.file("toml")).unwrap();
    let before = [&tunnel.van, &tunnel.hq].map(text);
    let call = || {
        let client = call(&tunnel.van, address).unwrap();
        (client, listener.accept().unwrap().0)
    };
    let (mut forwarded, mut forwarded_to) = call();
    tunnel.van.reload(&(before[0].clone() + SPLIT), "");
    drop(call());
    assert_eq!(tunnel.van.peer().streams, None, "the headquarters do not split");
    tunnel.hq.reload(&(before[1].clone() + SPLIT), "");
    wait_for("streams", PATIENCE, || tunnel.van.peer().streams.map(drop));
    let (mut split, mut split_to) = call();
    assert_eq!(streams(&tunnel.van).opened, 1);
    tunnel.van.reload(&before[0], "");
    let (mut again, mut again_to) = call();
    assert_eq!(tunnel.hq.peer().streams.map_or(1, |streams| streams.accepted), 1);
    // All of them go on as they began.
    for (near, far) in
        [(&mut forwarded, &mut forwarded_to), (&mut split, &mut split_to), (&mut again, &mut again_to)]
    {
        greet(near, far);
        greet(far, near);
    }
}
