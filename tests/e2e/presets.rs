//! What presets are for, with the programs that people use.

use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use psmc_sim::link::{LinkConfig, Loss, Probability, Rate};
use psmc_testbed::steadily::{Measured, steadily};

use crate::harness::{Family, Site, Tunnel};

/// A packet of MPEG-TS, and how many of them SRT sends at once.
const TS_PACKET: usize = 188;
const TS_PACKETS: usize = 7;

/// As many of these as 4 Mbit/s are.
const INTERVAL: Duration = Duration::from_micros(2632);

/// How long the video is.
const VIDEO: Duration = Duration::from_secs(12);

/// How late SRT plays it: less than it takes itself to notice and repeat what is lost on such links.
const LATENCY_MS: u32 = 80;

/// How long all of it takes to arrive.
const PATIENCE: Duration = Duration::from_secs(5);

/// `srt-live-transmit`, which ends on drop.
struct Srt(Child);

impl Srt {
    fn start(site: &Site, from: &str, to: &str) -> Self {
        let mut command = Command::new("srt-live-transmit");
        command.args(["-loglevel:fatal", "-chunk:1316", "-pf:json", "-s:100"]);
        command.arg(format!("-statsout:{}", site.file("srt").display()));
        command.args([from, to]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(site.namespace.spawn(&mut command).unwrap())
    }
}

impl Drop for Srt {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// What became of the video.
#[derive(Debug)]
struct Played {
    sent: u32,
    lost: u32,
    /// Packets that SRT has sent again.
    repeated: u64,
}

/// Two mobile links as in `scenarios/live.toml`.
fn links() -> [LinkConfig; 2] {
    let chance = |share| Probability::new(share).unwrap();
    let loss = Loss::GilbertElliott {
        to_bad: chance(0.005),
        to_good: chance(0.3),
        loss_good: chance(0.0),
        loss_bad: chance(1.0),
    };
    let link = |mbit: u64, delay, loss| LinkConfig {
        rate: Rate::Fixed(mbit * 1_000_000),
        delay: Duration::from_millis(delay),
        loss,
        ..LinkConfig::default()
    };
    [link(12, 25, loss), link(10, 35, Loss::Random(chance(0.01)))]
}

/// Sends a video by SRT through the tunnel.
fn play(preset: &str) -> Played {
    let (mut tunnel, _emulator) = Tunnel::prepare_emulated(&links());
    for site in [&tunnel.van, &tunnel.hq] {
        let text = fs::read_to_string(site.file("toml")).unwrap();
        let text = text.replacen("[[peer]]\n", &format!("[[peer]]\npreset = \"{preset}\"\n"), 1);
        fs::write(site.file("toml"), text).unwrap();
    }
    tunnel.hq.start();
    tunnel.van.start();
    tunnel.wait_until_up();
    let sink = tunnel.hq.namespace.run(|| UdpSocket::bind("127.0.0.1:5001")).unwrap();
    let source = tunnel.van.namespace.run(|| UdpSocket::bind("127.0.0.1:0")).unwrap();
    let inside = tunnel.hq.inner(Family::V4);
    let listener = format!("srt://:9000?mode=listener&latency={LATENCY_MS}");
    let caller = format!("srt://{inside}:9000?mode=caller&latency={LATENCY_MS}");
    let _receiver = Srt::start(&tunnel.hq, &listener, "udp://127.0.0.1:5001");
    let _sender = Srt::start(&tunnel.van, "udp://127.0.0.1:5000", &caller);
    // They are connected once anything arrives.
    sink.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut buffer = [0; 2048];
    let deadline = Instant::now() + PATIENCE;
    loop {
        // The port is nobody's until the program has opened it.
        drop(source.send_to(&datagram(0), "127.0.0.1:5000"));
        if sink.recv(&mut buffer).is_ok() {
            break;
        }
        assert!(Instant::now() < deadline, "SRT connects");
    }
    let receiving = std::thread::spawn(move || received(&sink));
    let sent = stream(&source);
    let lost = sent - u32::try_from(receiving.join().unwrap().len()).unwrap();
    Played { sent, lost, repeated: repeated(&tunnel.van) }
}

/// Sends the datagrams from the first on, and says how many.
fn stream(source: &UdpSocket) -> u32 {
    let start = Instant::now();
    let mut number = 0;
    while start.elapsed() < VIDEO {
        number += 1;
        source.send_to(&datagram(number), "127.0.0.1:5000").unwrap();
        let next = start + INTERVAL * number;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    number
}

/// Packets of MPEG-TS that have nothing in them, but for the number of the datagram.
fn datagram(number: u32) -> Vec<u8> {
    let mut bytes = [0x47, 0x01, 0x00, 0x10].iter().copied().chain([0xff; TS_PACKET - 4]).collect::<Vec<_>>();
    bytes = bytes.repeat(TS_PACKETS);
    bytes[4..8].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// The numbers that arrive until nothing does any more.
fn received(sink: &UdpSocket) -> BTreeSet<u32> {
    sink.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let (mut buffer, mut numbers) = ([0; 2048], BTreeSet::new());
    while let Ok(len) = sink.recv(&mut buffer) {
        if len >= 8 {
            numbers.insert(u32::from_be_bytes(buffer[4..8].try_into().unwrap()));
        }
    }
    numbers.remove(&0);
    numbers
}

/// What the sender says that it has sent again.
fn repeated(site: &Site) -> u64 {
    let text = fs::read_to_string(site.file("srt")).unwrap();
    let sent = text.lines().filter_map(|line| Some(line.split_once("\"send\":")?.1));
    let counts = sent.filter_map(|sent| sent.split_once("\"packetsRetransmitted\":")?.1.split(',').next());
    counts.filter_map(|count| count.trim().parse::<u64>().ok()).sum()
}

#[test]
fn srt_has_nothing_to_repeat_with_the_preset_for_live_video() {
    steadily(Measured::Loss, || {
        let [balanced, live] = ["balanced", "live"].map(play);
        println!("SRT with balanced: {balanced:?}");
        println!("SRT with live: {live:?}");
        assert!(balanced.sent > 1000 && live.sent > 1000);
        assert!(live.lost * 1000 <= live.sent, "{live:?}");
        assert!(live.repeated * 1000 <= u64::from(live.sent), "{live:?}");
    });
}
