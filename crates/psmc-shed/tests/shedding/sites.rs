//! A site as an upstream: what goes through a tunnel is dropped where it enters, because the agent beside the other end asks.
//!
//! ```text
//!  van, psmcd ═══ tunnel ═══ hq, psmcd and psmc-shed
//! ```

use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use psmc_api::{Client, PeerState};
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_testbed::netns::{Namespace, link_pair};
use psmc_testbed::poll::wait_for;
use psmc_testbed::programs::program;
use psmc_testbed::steadily::{Measured, steadily, turn};
use tempfile::TempDir;

use crate::world::{Flood, Host, LIMITED, OTHER, PACKET, PATIENCE};

/// What headquarters accept of the limited class, in bytes per second; the van sends four times as much.
const ACCEPTED: f64 = 500_000.0;

const VAN: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const HQ: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// A daemon that runs.
struct Site {
    socket: PathBuf,
    process: Child,
}

impl Site {
    fn start(
        host: &Namespace,
        (name, inner, key): (&str, Ipv4Addr, &PrivateKey),
        (peer, peer_inner, peer_key): (&str, Ipv4Addr, &PublicKey),
        path: &str,
        directory: &TempDir,
    ) -> Self {
        let socket = directory.path().join(format!("{name}-psmcd.sock"));
        let file = directory.path().join(format!("{name}-psmcd.toml"));
        let text = format!(
            "[site]\nname = \"{name}\"\nprivate_key = \"{}\"\naddresses = [\"{inner}/24\"]\ncontrol_socket = '{}'\n\
             [[peer]]\nname = \"{peer}\"\npublic_key = \"{peer_key}\"\nallowed_ips = [\"{peer_inner}/32\"]\n{path}",
            key.to_base64().as_str(),
            socket.display()
        );
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let mut command = Command::new(program("psmcd"));
        let process = host.spawn(command.arg("--config").arg(file)).unwrap();
        Self { socket, process }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Both fail only for a program that has ended.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Bytes of IP packets per second that arrive at a socket.
fn arriving(socket: &UdpSocket, time: Duration) -> f64 {
    let (started, mut buffer, mut packets) = (Instant::now(), [0; 2000], 0_u32);
    while started.elapsed() < time {
        packets += u32::from(socket.recv(&mut buffer).is_ok());
    }
    f64::from(packets) * f64::from(u32::try_from(PACKET).unwrap()) / started.elapsed().as_secs_f64()
}

fn receiver(host: &Namespace, port: u16) -> UdpSocket {
    let socket = host.run(|| UdpSocket::bind((HQ, port))).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20).unwrap();
    socket
}

#[test]
fn what_enters_a_tunnel_is_dropped_there_for_the_other_end() {
    steadily(Measured::Rate, || {
        let _turn = turn();
        let directory = Arc::new(tempfile::tempdir().unwrap());
        let van = Namespace::new().expect("this test needs root");
        let mut hq = Host::new("hq", &directory);
        link_pair(&van, "eth0", &hq.namespace, "eth0").unwrap();
        van.add_address("eth0", "192.0.2.2/24".parse().unwrap()).unwrap();
        hq.namespace.add_address("eth0", "192.0.2.1/24".parse().unwrap()).unwrap();
        let [van_key, hq_key] = [(); 2].map(|()| PrivateKey::generate());
        let path = "[[peer.path]]\nname = \"line\"\nendpoint = \"192.0.2.1:5115\"\n";
        let of_hq = ("hq", HQ, &hq_key.public());
        let sites = [
            Site::start(&hq.namespace, ("hq", HQ, &hq_key), ("van", VAN, &van_key.public()), "", &directory),
            Site::start(&van, ("van", VAN, &van_key), of_hq, path, &directory),
        ];
        wait_for("the tunnel", PATIENCE, || {
            let peers = Client::connect(&sites[0].socket).ok()?.status().ok()?.peers;
            (peers.first()?.state == PeerState::Connected).then_some(())
        });
        hq.start(&format!(
            "lifetime = 3\n\
             [[accept]]\nname = \"limited\"\ndestination = \"{HQ}\"\nprotocol = \"udp\"\nports = {LIMITED}\nrate = \"4mbit\"\n\
             [[accept]]\nname = \"foreign\"\ndestination = \"{VAN}\"\nrate = \"16kbit\"\n\
             [[upstream]]\nname = \"van\"\nkind = \"site\"\npeer = \"van\"\nsocket = '{}'\n",
            sites[0].socket.display()
        ));
        wait_for("the van to have the rules", PATIENCE, || {
            let upstream = hq.status().server?.upstreams.pop()?;
            let is_refused = upstream.refused.iter().any(|refused| refused.starts_with("foreign"));
            (upstream.current && upstream.error.is_none() && is_refused).then_some(())
        });
        let [limited, other] = [LIMITED, OTHER].map(|port| receiver(&hq.namespace, port));
        let to = |port| SocketAddr::from((HQ, port));
        let _floods = (Flood::to(&van, to(LIMITED), 2_000_000), Flood::to(&van, to(OTHER), 100_000));
        sleep(Duration::from_secs(5));
        // What has waited in the socket meanwhile is not of the time that follows.
        while limited.recv(&mut [0; 2000]).is_ok()
            && arriving(&limited, Duration::from_millis(100)) > 4.0 * ACCEPTED
        {}
        let rate = arriving(&limited, Duration::from_secs(3));
        println!("accepted {ACCEPTED}, arriving {rate:.0}");
        assert!((0.9..1.1).contains(&(rate / ACCEPTED)), "{rate} of {ACCEPTED}");
        assert!(arriving(&other, Duration::from_secs(1)) > 90_000.0, "nobody else is touched");
        let peers = Client::connect(&sites[1].socket).unwrap().status().unwrap().peers;
        assert!(peers[0].drops["shed"] > 1000, "{:?}", peers[0].drops);

        // An agent that is killed leaves a site that sends everything, once its rules have ended.
        hq.end("-KILL");
        wait_for("everything to pass", PATIENCE, || {
            (arriving(&limited, Duration::from_millis(500)) > 3.0 * ACCEPTED).then_some(())
        });
    });
}
