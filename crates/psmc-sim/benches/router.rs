//! What a packet costs in a router, beside a link: both are driven alike, in turns, and the ratio of their times is printed.
//!
//! `cargo bench -p psmc-sim --bench router`

use std::hint::black_box;
use std::time::{Duration, Instant};

use psmc_sim::link::{Link, LinkConfig, PacketInfo, QueueLimit};
use psmc_sim::router::{Amount, PortConfig, Router, RouterConfig, Table, Tables};

/// Packets of a turn, and turns of each: together some seconds.
const PACKETS: u32 = 1_000_000;
const TURNS: usize = 9;

/// The gap between packets, below which 1,500 bytes queue at a gigabit per second: at most times a few wait.
const GAPS: [(&str, u64); 3] = [("idle", 20_000), ("busy", 12_500), ("overloaded", 9_000)];

fn main() {
    for (load, gap) in GAPS {
        let mut ratios: Vec<f64> = (0..TURNS)
            .map(|_| {
                let link = time(|start| drive_link(start, gap));
                let router = time(|start| drive_router(start, gap));
                router / link
            })
            .collect();
        ratios.sort_by(f64::total_cmp);
        let [least, median, most] = [ratios[0], ratios[TURNS / 2], ratios[TURNS - 1]];
        println!("{load}: a router takes {median:.2} times as long as a link ({least:.2} to {most:.2})");
    }
}

fn time(work: impl FnOnce(Instant)) -> f64 {
    let start = Instant::now();
    work(start);
    start.elapsed().as_secs_f64()
}

/// When each packet enters, in virtual time.
fn entries(start: Instant, gap: u64) -> impl Iterator<Item = Instant> {
    (0..PACKETS).map(move |number| start + Duration::from_nanos(gap) * number)
}

fn drive_link(start: Instant, gap: u64) {
    let config =
        LinkConfig::new(1_000_000_000, Duration::from_micros(50)).with_queue(QueueLimit::Packets(50));
    let mut link = Link::new(config, 1, start);
    for now in entries(start, gap) {
        while let Some(due) = link.poll_timeout().filter(|due| *due <= now) {
            while let Some(arrival) = link.poll_packet(due) {
                black_box(arrival.packet);
            }
            while link.poll_dropped().is_some() {}
        }
        link.handle_packet(0u64, PacketInfo::new(1500), now);
    }
}

fn drive_router(start: Instant, gap: u64) {
    let Some(config) = router() else { return };
    let mut router = Router::new(config, 1, start);
    for (number, now) in entries(start, gap).enumerate() {
        while let Some(due) = router.poll_timeout().filter(|due| *due <= now) {
            while let Some(departure) = router.poll_packet(due) {
                black_box(departure.packet);
            }
            while router.poll_dropped().is_some() {}
        }
        router.handle_packet(0u64, PacketInfo::new(1500), number % 4, Some(0), now);
    }
}

/// Four ports at a gigabit per second, and tables as the profiler makes them.
fn router() -> Option<RouterConfig> {
    let port = PortConfig::new(1_000_000_000, Amount::new(50.0)?);
    let delay = [(64, 20), (600, 30), (1500, 50)].map(|(len, micros)| (len, Duration::from_micros(micros)));
    let need = [(64, Amount::new(0.5)?), (1500, Amount::ONE)];
    let tables = Tables {
        delay: Table::<Duration>::new(delay.to_vec()).ok()?,
        servers: Table::<Amount>::new(need.to_vec()).ok()?,
        slots: Table::<Amount>::new(need.to_vec()).ok()?,
    };
    RouterConfig::new(vec![port; 4], Amount::new(6.5)?, tables, None).ok()
}
