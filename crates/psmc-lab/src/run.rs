//! A scenario in real time: hosts are network namespaces, links are emulated, programs and packets are real.
//!
//! | module | what it has |
//! |---|---|
//! | `stage` | everything that was made for the run, and the order in which it goes |
//! | `network` | hosts and links, addresses and routes, and how they change |
//! | `nat` | translation of addresses |
//! | `programs` | programs: found, started, ended |
//! | `tunnels` | the daemons of tunnels |
//! | `agenda` | what happens when |
//! | `sampler` | what links and paths do over time |
//! | `progress` | what is shown while it runs |

mod agenda;
mod error;
mod network;
mod process;
mod programs;
mod progress;
mod sampler;
mod stage;
mod tunnels;

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use psmc_testbed::netns::{enter_user_namespace, is_privileged};
use psmc_testbed::stalls::{StallWatch, Stalls};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::checks;
use crate::results::{Mode, Results, TrafficResult};
use crate::scenario::Scenario;
use crate::traffic::{Clock, Stream};
use progress::Progress;
use sampler::{Links, Tellings};
use stage::Stage;

pub use error::RunError;

/// How a scenario is run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Where logs, configurations and captures are left; nowhere if `None`.
    pub keep: Option<PathBuf>,
    /// Whether nothing is shown while it runs.
    pub quiet: bool,
    /// Where programs are looked for before the PATH; beside the running one if `None`.
    pub programs: Option<PathBuf>,
}

/// Runs a scenario to its end, and removes everything that it has made, also after an error.
///
/// A process without privileges enters a user namespace of its own, which it can do only before it starts its second
/// thread; there is no way back. SIGINT, SIGTERM and SIGHUP end the run while it lasts.
///
/// # Errors
/// [`RunError`]; not if a check does not hold.
pub fn run(scenario: &Scenario, options: &RunOptions) -> Result<Results, RunError> {
    allow_many_files();
    if !is_privileged() {
        enter_user_namespace()?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(RunError::Runtime)?.block_on(async {
        tokio::select! {
            // Signals must be caught before there is anything to remove.
            biased;
            () = interruption() => Err(RunError::Interrupted),
            results = conduct(scenario, options) => results,
        }
    })
}

/// Raises the number of files that the process may have open to what it may have at most: each end of a link takes
/// some, and the usual 1024 (for the sake of programs that call select) are not enough for some hundred hosts. If that
/// fails, the lab works as far as there are files.
fn allow_many_files() {
    let _ = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, most)| setrlimit(Resource::RLIMIT_NOFILE, most, most));
}

/// Everything from making the network to judging the results. To drop it removes what was made.
async fn conduct(scenario: &Scenario, options: &RunOptions) -> Result<Results, RunError> {
    let mut progress = Progress::new(options.quiet);
    progress.note(&format!("{}: {}", scenario.name, contents(scenario)));
    let stage = Arc::new(Stage::new(scenario, options)?);
    if !scenario.tunnels.is_empty() {
        progress.note("waiting for the tunnels");
        let _cancel = CancelOnDrop(&stage);
        aside(&stage, Stage::open_tunnels).await?;
    }
    let watch = StallWatch::start().map_err(RunError::Stalls)?;
    let clock = Clock::new(Instant::now() + LEAD, scenario.sample_interval);
    let streams = stage.start_traffic(clock);
    let show = async {
        progress.run(scenario, clock, &streams).await;
        Ok(())
    };
    let (events, links, tellings, ()) = tokio::try_join!(
        agenda::carry_out(&stage, clock),
        async { Ok(Links::sample(&stage, clock).await) },
        async { Ok(Tellings::sample(&stage, clock).await) },
        show
    )?;
    let traffic = finish(streams).await;
    let stalls = watch.finish();
    let mut ended = aside(&stage, Stage::finish).await;
    let mut results = Results {
        scenario: scenario.name.clone(),
        mode: Mode::Real,
        seed: scenario.seed,
        duration_s: scenario.duration.as_secs_f64(),
        traffic,
        links: links.results(scenario),
        paths: tellings.results(scenario, &mut ended.sites),
        sites: ended.sites,
        programs: ended.programs,
        events,
        checks: Vec::new(),
        stalls: Some(stalls.into()),
        warnings: warning_of(&stalls).into_iter().chain(ended.warnings).collect(),
    };
    results.checks = checks::evaluate(scenario, &results);
    Ok(results)
}

/// What the user should know of a machine that stood still for more than a moment.
fn warning_of(stalls: &Stalls) -> Option<String> {
    (stalls.share > MUCH).then(|| {
        format!(
            "the machine stalled for {:.0} % of the time, up to {:.0} ms at once: rates and times may be wrong",
            100.0 * stalls.share,
            1000.0 * stalls.longest.as_secs_f64()
        )
    })
}

/// Ends the waiting for tunnels, which goes on on another thread, with that for its outcome.
struct CancelOnDrop<'a>(&'a Stage);

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Does something with the stage on another thread: the kernel takes its time to change a network, and what arrives
/// meanwhile must be noticed.
async fn aside<T: Send + 'static>(stage: &Arc<Stage>, act: impl FnOnce(&Stage) -> T + Send + 'static) -> T {
    let stage = Arc::clone(stage);
    let outcome = spawn_blocking(move || act(&stage)).await;
    outcome.unwrap_or_else(|panic| resume_unwind(panic.into_panic()))
}

/// Waits for all streams. It can be dropped at any time, and they with it.
async fn finish(streams: Vec<Stream>) -> Vec<TrafficResult> {
    while !streams.iter().all(Stream::is_finished) {
        sleep(POLL).await;
    }
    streams.into_iter().map(Stream::finish).collect()
}

/// What a scenario consists of, in a line.
fn contents(scenario: &Scenario) -> String {
    let count = |number: usize, what: &str| match number {
        0 => None,
        1 => Some(format!("1 {what}")),
        _ => Some(format!("{number} {what}s")),
    };
    let counts = [
        count(scenario.hosts.len(), "host"),
        count(scenario.links.len(), "link"),
        count(scenario.tunnels.len(), "tunnel"),
        count(scenario.programs.len(), "program"),
        count(scenario.traffic.len(), "stream"),
        Some(format!("{} s", scenario.duration.as_secs_f64())),
    ];
    counts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Waits until the user, or the system, wants the run to end.
async fn interruption() {
    let signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = signals else {
        // Without handlers the signals do what they do by default, which ends the lab as well.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
}

/// The part of the time for which a machine may stand still without a word.
const MUCH: f64 = 0.02;

/// How long before the start of the run the traffic is told of it: time to make sockets.
const LEAD: Duration = Duration::from_millis(100);

/// How often it is looked whether the streams have ended, which they do a moment after the run.
const POLL: Duration = Duration::from_millis(5);

/// What the chance of a thing is drawn from: another seed for each number (SplitMix64: Steele, Lea and Flood, "Fast
/// splittable pseudorandom number generators", 2014).
const fn derive_seed(seed: u64, number: u64) -> u64 {
    let mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number.wrapping_add(1)));
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
