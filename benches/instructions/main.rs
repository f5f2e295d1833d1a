//! What a packet costs the engine, in instructions, as its state grows, and what sessions take of memory.
//!
//! `cargo bench -p psmc-core --bench instructions` counts under valgrind's callgrind, so it says the same on a busy
//! machine as on an idle one; it fails without valgrind. Both ends are counted, from the packet to its delivery, with
//! the acknowledgements. Left out is what the engine leaves to others: system calls, and sealing and opening.

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
const SIZES: [(&str, &[Size]); 3] = [
    ("flows", &[size(1, 1, 0), size(1, 100, 0), size(1, 10_000, 0), size(1, 100_000, 0)]),
    ("paths", &[size(1, 1, 0), size(2, 1, 0), size(4, 1, 0), size(8, 1, 0), size(16, 1, 0), size(64, 1, 0)]),
    ("packets held", &[size(1, 1, 0), size(1, 1, 10), size(1, 1, 100), size(1, 1, 1000), size(1, 1, 4000)]),
];

const fn size(paths: usize, flows: usize, held: usize) -> Size {
    Size { paths, flows, held }
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
        [CARRY, paths, flows, held] => {
            carry_all(&mut Workload::new(size(paths.parse()?, flows.parse()?, held.parse()?)));
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
            let count = instructions(*size)?;
            let ratio = count / *first.get_or_insert(count);
            let grown = match title {
                "flows" => size.flows,
                "paths" => size.paths,
                _ => size.held,
            };
            println!("| {grown} | {count:.0} | {ratio:.3} |");
        }
        println!();
    }
    let sessions = callgrind::printed(&[MEMORY, "sessions"])?;
    println!("bytes of an idle session of two paths: {sessions}");
    println!("MiB of {PEERS} peers that are configured: {}", callgrind::printed(&[MEMORY, "peers"])? >> 20);
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn instructions(Size { paths, flows, held }: Size) -> Result<f64, Box<dyn Error>> {
    let [paths, flows, held] = [paths, flows, held].map(|number| number.to_string());
    let count = callgrind::instructions(&["*carry_all*", "*TestKey*tag*"], &[CARRY, &paths, &flows, &held])?;
    Ok(count as f64 / PACKETS as f64)
}

/// What is measured: nothing else of this program is counted.
#[inline(never)]
fn carry_all(workload: &mut Workload) {
    workload.carry();
}

/// Bytes that something takes.
fn memory(kind: &str) -> Result<u64, Box<dyn Error>> {
    const WORLDS: u64 = 100;
    let before = callgrind::resident()?;
    match kind {
        // With all that is around the two sessions of each, so that they are rather less.
        "sessions" => {
            let worlds: Vec<_> = (0..WORLDS).map(|_| workload::idle_world()).collect();
            let bytes = callgrind::resident()?.saturating_sub(before);
            drop(worlds);
            Ok(bytes / WORLDS / 2)
        }
        _ => {
            let site = workload::site_with_peers(PEERS)?;
            let bytes = callgrind::resident()?.saturating_sub(before);
            drop(site);
            Ok(bytes)
        }
    }
}
