//! What a packet costs the engine, in instructions, as its state grows, and what sessions take of memory.
//!
//! `cargo bench -p psmc-core --bench instructions` counts under valgrind's callgrind, so it says the same on a busy
//! machine as on an idle one; it fails without valgrind. Both ends are counted, from the packet to its delivery, with
//! the acknowledgements. Left out is what the engine leaves to others: system calls, and sealing and opening. Then the
//! parts of that are counted by themselves.

#[path = "../kit/callgrind.rs"]
mod callgrind;
mod workload;
#[path = "../../crates/psmc-core/tests/world/mod.rs"]
mod world;

use std::error::Error;
use std::process::ExitCode;

use workload::{PACKETS, Size, Workload};

/// By which this program tells itself that it is run under valgrind, or for its memory.
const CARRY: &str = "carry";
const MEMORY: &str = "memory";

/// Peers of a site with many of them.
const PEERS: u64 = 10_000;

/// What is compared: one of a kind grows.
const SIZES: [(&str, &[Size]); 4] = [
    ("flows", &[ONE, flows(100), flows(10_000), flows(100_000)]),
    ("paths, one of them busy", &[ONE, paths(2), paths(4), paths(8), paths(16), paths(64)]),
    ("paths, all of them busy", &[busy(1), busy(2), busy(4), busy(8), busy(16), busy(64)]),
    ("packets held", &[ONE, held(10), held(100), held(1000), held(4000)]),
];

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

const ONE: Size = Size { paths: 1, all_busy: false, flows: 1, held: 0 };

const fn flows(flows: usize) -> Size {
    Size { flows, ..ONE }
}

const fn paths(paths: usize) -> Size {
    Size { paths, ..ONE }
}

const fn busy(paths: usize) -> Size {
    Size { paths, all_busy: true, ..ONE }
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
        [CARRY, packets, paths, all_busy, flows, held] => {
            let (paths, all_busy) = (paths.parse()?, all_busy.parse()?);
            let size = Size { paths, all_busy, flows: flows.parse()?, held: held.parse()? };
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
    for (title, sizes) in SIZES {
        println!("| {title} | instructions per packet | ratio |\n|---|---|---|");
        let mut first = None;
        for size in sizes {
            let count = instructions(&ALL, *size)?;
            let ratio = count / *first.get_or_insert(count);
            let grown = match title {
                "flows" => size.flows,
                "packets held" => size.held,
                _ => size.paths,
            };
            println!("| {grown} | {count:.0} | {ratio:.3} |");
        }
        println!();
    }
    println!("| part | one path | 64 paths, one busy | 64 paths, all busy |\n|---|---|---|---|");
    for (part, functions) in PARTS {
        let [one, idle, busy] = [ONE, paths(64), busy(64)].map(|size| instructions(functions, size));
        println!("| {part} | {:.0} | {:.0} | {:.0} |", one?, idle?, busy?);
    }
    println!();
    let (sessions, peers) =
        (callgrind::printed(&[MEMORY, "sessions"])?, callgrind::printed(&[MEMORY, "peers"])?);
    println!("bytes of an idle session of two paths, its peer included: {}", sessions + peers / PEERS);
    println!("MiB of {PEERS} peers that are configured: {}", peers >> 20);
    Ok(())
}

/// The instructions per packet in the function whose name matches the first of these, less those in the other.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn instructions(functions: &[&str], size: Size) -> Result<f64, Box<dyn Error>> {
    let Size { paths, all_busy, flows, held } = size;
    let [paths, flows, held] = [paths, flows, held].map(|number| number.to_string());
    let count = |packets: usize| {
        let (packets, all_busy) = (packets.to_string(), all_busy.to_string());
        callgrind::instructions(functions, &[CARRY, &packets, &paths, &all_busy, &flows, &held])
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
