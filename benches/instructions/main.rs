//! What a packet costs the engine, in instructions, as its state grows, and what sessions take of memory.
//!
//! `cargo bench -p psmc-core --bench instructions` counts under valgrind's callgrind, so it says the same on a busy
//! machine as on an idle one; it fails without valgrind. Both ends are counted, from the packet to its delivery, with
//! the acknowledgements. Left out is what the engine leaves to others: system calls, and sealing and opening. Then the
//! parts of that are counted by themselves. It fails if a packet costs more than it may.

#[path = "../kit/callgrind.rs"]
mod callgrind;
mod workload;
#[path = "../../crates/psmc-core/tests/engine/world/mod.rs"]
mod world;

use std::error::Error;
use std::process::ExitCode;

use workload::{Features, Load, PACKETS, Size, Workload};

/// By which this program tells itself that it is run under valgrind, or for its memory.
const CARRY: &str = "carry";
const MEMORY: &str = "memory";

/// Peers of a site with many of them.
const PEERS: u64 = 10_000;

/// One of a kind grows, all else stays as it is.
struct Growth {
    title: &'static str,
    /// What grows.
    of: fn(&Size) -> usize,
    sizes: &'static [Size],
    /// How much more a packet may cost than at the first size.
    bound: Option<f64>,
}

/// The number of what there is must matter next to nothing.
const NEXT_TO_NOTHING: Option<f64> = Some(1.05);

/// What is compared. Of packets held there are hardly more: a flow waits for a gap while the packets behind it
/// fit into the 4096 numbers that are remembered of it, and a session holds 8192 packets in all, however it is configured.
const GROWTHS: [Growth; 5] = [
    Growth {
        title: "flows",
        of: |size| size.flows,
        sizes: &[ONE, flows(100), flows(10_000), flows(100_000)],
        bound: NEXT_TO_NOTHING,
    },
    Growth {
        title: "paths, one of them busy",
        of: |size| size.paths,
        sizes: &[ONE, paths(2), paths(4), paths(8), paths(16), paths(64)],
        bound: NEXT_TO_NOTHING,
    },
    Growth {
        title: "paths, all of them busy",
        of: |size| size.paths,
        sizes: &[busy(1), busy(2), busy(4), busy(8), busy(16), busy(64)],
        // The more there are, the shorter are the batches, for each is slower.
        bound: None,
    },
    Growth {
        title: "paths, all of them busy and slow",
        of: |size| size.paths,
        sizes: &[slow(1), slow(2), slow(4), slow(8), slow(16), slow(64)],
        bound: NEXT_TO_NOTHING,
    },
    Growth {
        title: "packets held",
        of: |size| size.held,
        sizes: &[held(10), held(100), held(1000), held(4000)],
        bound: NEXT_TO_NOTHING,
    },
];

/// The same packets carried with nothing but what carrying them takes, and with all that is done by default.
const FEATURES: [(&str, Size); 4] = [
    ("none", Size { features: Features::None, ..ONE }),
    ("all", Size { features: Features::All, ..ONE }),
    ("all, and flows are counted for export", Size { features: Features::Exported, ..ONE }),
    ("all, and a second path", Size { features: Features::All, ..paths(2) }),
];

/// Packets of many flows carried without a conditioner and with one, beyond whose profile half of them is.
const CONDITIONERS: [(&str, Size); 2] =
    [("off", flows(100_000)), ("adaptive", Size { features: Features::Conditioned, ..flows(100_000) })];

/// What a conditioner may cost.
const CONDITIONERS_BOUND: f64 = 1.08;

/// What the features may cost.
const FEATURES_BOUND: f64 = 1.10;

/// All that a packet goes through, less what stands for the cipher.
const ALL: [&str; 2] = ["*carry_all*", "*TestKey*tag*"];

/// What a packet goes through, and the function in which it does, with what that calls; if a second one is named, less that.
const PARTS: [(&str, &[&str]); 8] = [
    ("classify", &["*classify::classify"]),
    ("schedule", &["*Scheduler>::choose"]),
    ("seal, less the cipher", &["*path::emit*Path>::seal", "*TestKey*PacketKey>::seal"]),
    ("open, less the cipher", &["*KeyRing::open", "*TestKey*PacketKey>::open"]),
    ("parse", &["*Frames as*Iterator>::next"]),
    ("note the arrival", &["*Received::on_datagram"]),
    ("reorder", &["*Reorder::insert"]),
    ("acknowledge", &["*path::settle*Path>::on_ack"]),
];

/// In what state it does: what every column of their table is.
const STATES: [(&str, Size); 6] = [
    ("one path", ONE),
    ("64 paths, one busy", paths(64)),
    ("64 paths, all busy", busy(64)),
    ("100,000 flows", flows(100_000)),
    ("10 packets held", held(10)),
    ("4000 packets held", held(4000)),
];

const ONE: Size = Size { paths: 1, load: Load::Light, features: Features::GivenRate, flows: 1, held: 0 };

const fn flows(flows: usize) -> Size {
    Size { flows, ..ONE }
}

const fn paths(paths: usize) -> Size {
    Size { paths, ..ONE }
}

const fn busy(paths: usize) -> Size {
    Size { paths, load: Load::Heavy, ..ONE }
}

const fn slow(paths: usize) -> Size {
    Size { paths, load: Load::Slow, ..ONE }
}

const fn held(held: usize) -> Size {
    Size { held, ..ONE }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [CARRY, packets, paths, load, features, flows, held] => {
            let load = Load::named(load).ok_or("no such load")?;
            let features = Features::named(features).ok_or("no such features")?;
            let (paths, flows, held) = (paths.parse()?, flows.parse()?, held.parse()?);
            let size = Size { paths, load, features, flows, held };
            carry_all(&mut Workload::new(size), packets.parse()?);
            Ok(())
        }
        [MEMORY, kind] => {
            println!("{}", memory(kind)?);
            Ok(())
        }
        // Whatever cargo tells every benchmark.
        _ => compare(),
    }
}

fn compare() -> Result<(), Box<dyn Error>> {
    let mut exceeded = Vec::new();
    for growth in GROWTHS {
        let ratio = compare_sizes(&growth)?;
        exceeded.extend(growth.bound.filter(|&bound| ratio > bound).map(|_| growth.title));
    }
    exceeded.extend((compare_all("features", &FEATURES)? > FEATURES_BOUND).then_some("features"));
    exceeded.extend(
        (compare_all("conditioner", &CONDITIONERS)? > CONDITIONERS_BOUND).then_some("conditioned flows"),
    );
    compare_parts()?;
    let (sessions, peers) =
        (callgrind::printed(&[MEMORY, "sessions"])?, callgrind::printed(&[MEMORY, "peers"])?);
    println!("bytes of an idle session of two paths, its peer included: {}", sessions + peers / PEERS);
    println!("MiB of {PEERS} peers that are configured: {}", peers >> 20);
    if exceeded.is_empty() {
        return Ok(());
    }
    Err(format!("a packet costs more than it may with many {}", exceeded.join(" and many ")).into())
}

/// Prints what a packet costs at each size, and returns the largest ratio to the first.
fn compare_sizes(growth: &Growth) -> Result<f64, Box<dyn Error>> {
    println!("| {} | instructions per packet | ratio |\n|---|---|---|", growth.title);
    let (mut first, mut largest) = (None, 0.0_f64);
    for size in growth.sizes {
        let count = instructions(&ALL, *size)?;
        let ratio = count / *first.get_or_insert(count);
        largest = largest.max(ratio);
        println!("| {} | {count:.0} | {ratio:.3} |", (growth.of)(size));
    }
    println!();
    Ok(largest)
}

/// Prints what each of these costs a packet, and returns the largest ratio to the first.
fn compare_all(what: &str, all: &[(&str, Size)]) -> Result<f64, Box<dyn Error>> {
    println!("| {what} | instructions per packet | ratio |\n|---|---|---|");
    let (mut first, mut largest) = (None, 0.0_f64);
    for (title, size) in all {
        let count = instructions(&ALL, *size)?;
        let ratio = count / *first.get_or_insert(count);
        largest = largest.max(ratio);
        println!("| {title} | {count:.0} | {ratio:.3} |");
    }
    println!();
    Ok(largest)
}

fn compare_parts() -> Result<(), Box<dyn Error>> {
    let titles = STATES.map(|(title, _)| title).join(" | ");
    println!("| part | {titles} |\n|---{}|", "|---".repeat(STATES.len()));
    for (part, functions) in PARTS {
        print!("| {part} |");
        for (_, size) in STATES {
            print!(" {:.0} |", instructions(functions, size)?);
        }
        println!();
    }
    println!();
    Ok(())
}

/// The instructions per packet in the function whose name matches the first of these, less those in the other.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn instructions(functions: &[&str], size: Size) -> Result<f64, Box<dyn Error>> {
    let Size { paths, load, features, flows, held } = size;
    let [paths, flows, held] = [paths, flows, held].map(|number| number.to_string());
    let count = |packets: usize| {
        let packets = packets.to_string();
        callgrind::instructions(
            functions,
            &[CARRY, &packets, &paths, load.name(), features.name(), &flows, &held],
        )
    };
    // What happens before the packets is counted as well: the same, if there are none.
    let before = count(0)?;
    let all = count(PACKETS)?;
    if all == before {
        return Err(format!("nothing was counted of {functions:?}: inlined into what calls it").into());
    }
    Ok((all - before) as f64 / PACKETS as f64)
}

/// What is measured: nothing else of this program is counted.
#[inline(never)]
fn carry_all(workload: &mut Workload, packets: usize) {
    workload.carry(packets);
}

/// Bytes that something takes.
fn memory(kind: &str) -> Result<u64, Box<dyn Error>> {
    const WORLDS: u64 = 100;
    let before = callgrind::resident()?;
    match kind {
        // What worlds with sessions take beyond those without, in which there are sites and peers, but neither links nor
        // paths: the session, its paths, and the links around them.
        "sessions" => {
            let empty: Vec<_> = (0..WORLDS).map(|_| workload::silent_world()).collect();
            let without = callgrind::resident()?.saturating_sub(before);
            let idle: Vec<_> = (0..WORLDS).map(|_| workload::idle_world()).collect();
            let with = callgrind::resident()?.saturating_sub(before + without);
            drop((empty, idle));
            Ok(with.saturating_sub(without) / WORLDS / 2)
        }
        _ => {
            let site = workload::site_with_peers(PEERS)?;
            let bytes = callgrind::resident()?.saturating_sub(before);
            drop(site);
            Ok(bytes)
        }
    }
}
