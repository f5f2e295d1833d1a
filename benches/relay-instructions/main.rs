//! What a datagram costs a relay of one session and one of 10,000, in instructions, and what a session takes of memory.
//!
//! `cargo bench -p psmc-relay --bench relay-instructions` counts under valgrind's callgrind, so it says the same on a
//! busy machine as on an idle one; it fails without valgrind, and if a limit is exceeded. The engine is measured, not the
//! system calls around it.

#[path = "../kit/callgrind.rs"]
mod callgrind;
mod workload;

use std::error::Error;
use std::process::ExitCode;

use workload::Workload;

/// Sessions of a relay with many of them.
const MANY: u32 = 10_000;

/// What a datagram may cost among many sessions, by what it costs in the only one.
const MAX_RATIO: f64 = 1.2;

/// Bytes that a session may take.
const MAX_BYTES: u64 = 2048;

/// By which this program tells itself that it is run under valgrind, or for its memory.
const CARRY: &str = "carry";
const MEMORY: &str = "memory";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("relay-instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all limits are kept.
fn run() -> Result<bool, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [CARRY, sessions] => {
            carry_all(&mut Workload::new(sessions.parse()?));
            Ok(true)
        }
        [MEMORY] => {
            println!("{}", memory_per_session()?);
            Ok(true)
        }
        // Whatever cargo tells every benchmark.
        _ => compare(),
    }
}

fn compare() -> Result<bool, Box<dyn Error>> {
    let (one, many) = (instructions(1)?, instructions(MANY)?);
    let ratio = many / one;
    println!("instructions per datagram, one session: {one:.0}");
    println!("instructions per datagram, {MANY} sessions in random order: {many:.0}");
    println!("ratio: {ratio:.3}, at most {MAX_RATIO}");
    let memory = callgrind::printed(&[MEMORY])?;
    println!("bytes per session: {memory}, at most {MAX_BYTES}");
    Ok(ratio <= MAX_RATIO && memory <= MAX_BYTES)
}

/// What a datagram costs among so many sessions.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn instructions(sessions: u32) -> Result<f64, Box<dyn Error>> {
    let count = callgrind::instructions(&["*carry_all*"], &[CARRY, &sessions.to_string()])?;
    Ok(count as f64 / workload::DATAGRAMS as f64)
}

/// What is measured: nothing else of this program is counted.
#[inline(never)]
fn carry_all(workload: &mut Workload) {
    workload.carry();
}

/// What a session with traffic in both directions takes, tables and all.
fn memory_per_session() -> Result<u64, Box<dyn Error>> {
    let before = callgrind::resident()?;
    let workload = Workload::sessions(MANY);
    let bytes = callgrind::resident()?.saturating_sub(before);
    drop(workload);
    Ok(bytes / u64::from(MANY))
}
