//! `psmc demo --attack`: a service is flooded, and its clients do not notice.
//!
//! The service `www.example.com` has a line of its own, and two more that nobody knows. Two clients download from it
//! through the tunnel, straight. Then an attacker floods the line with ten times what it carries. The guard notices, the
//! coordinator chooses relays, the gateway registers with them over its hidden lines, the relays are published in DNS, and
//! the clients go through them, until the flood is over. In the middle of it one of the relays is killed, and replaced; then
//! another one swallows all datagrams, though it answers whoever asks how it is, and is replaced as well.
//!
//! ```text
//!  home ───┐                      ┌── main ───┐
//!  office ─┤   ┌── fra1, ams1, ───┤           │
//!          ├── inet  lon1, par1   ├── alt1 ───┼── site ── www
//!  attacker┤    │                 │           │  psmcd, guard
//!  ops ────┘    └─────────────────┴── alt2 ───┘
//!  coordinator, name server
//! ```
//!
//! | module | what it has |
//! |---|---|
//! | `network` | the namespaces and lines |
//! | `programs`, `files` | the programs of all of them, what they say, and their configurations |
//! | `traffic` | the clients' questions and downloads, and what the attacker sends |
//! | `hiding` | whether clients see where the hidden lines are |
//! | `watch` | when what happened |
//! | `report` | what is printed at the end |
//! | `root` | `psmc demo --root`: the same network and programs, with a root name server behind the line |

mod files;
mod hiding;
mod network;
mod programs;
mod report;
mod root;
mod traffic;
mod watch;

use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::{sleep, sleep_until};

use super::DemoError;
use super::launch::{Directory, POLL};
use super::view::View;
use files::PORT;
use hiding::{Hiding, HidingReport};
use network::{AttackNetwork, CLIENTS, LINE_MBPS};
use programs::Programs;
pub(super) use report::AttackReport;
pub(super) use root::demonstrate as demonstrate_root;
use traffic::{Downloads, Flood};
use watch::{Progress, Watch};

/// The service's name.
const SERVICE: &str = "www.example.com";

/// When the flood begins, after the start of the downloads: by then the guard knows what is usual.
const FLOOD_AT: Duration = Duration::from_secs(8);

/// How relays fail, and how long the clients go through them before.
const FAILURES: [(Duration, Failure); 2] =
    [(Duration::from_secs(4), Failure::Killed), (Duration::from_millis(2500), Failure::Swallows)];

/// How long the flood goes on after that.
const AFTER_FAILURES: Duration = Duration::from_millis(2500);

/// How long the flood lasts, and at most: on a busy machine everything takes its time.
const FLOOD_FOR: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(40)];

/// How long the downloads go on once the clients are back on the direct way, and how long they wait for that after the flood.
const AFTERWARDS: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(60)];

/// How many times the line's rate is sent to it.
const FLOOD_FACTOR: u32 = 10;

/// Everything from making the network to the report. To drop it ends all programs and removes what was made.
pub(super) async fn demonstrate(keep: Option<&std::path::Path>) -> Result<AttackReport, DemoError> {
    let directory = Directory::new(keep)?;
    let mut view = View::new();
    view.note(&format!(
        "{SERVICE} behind a line of {LINE_MBPS} Mbit/s and two hidden ones; four relays; clients {}",
        CLIENTS.join(" and ")
    ));
    let network = AttackNetwork::new()?;
    let hiding = Hiding::start(&network)?;
    let mut programs = Programs::start(&network, SERVICE, directory.path()).await?;
    let set_up = programs.wait_until_up().await?;
    view.note(&format!(
        "twelve programs are up, and both clients reach the service, after {} ms",
        set_up.as_millis()
    ));
    let mut downloads = Downloads::start(&network).await?;
    let started = Instant::now();
    let mut watch = Watch::new(started, &programs);
    let progress = watch.progress();
    let work = async {
        let (failed, may_end) = oneshot::channel();
        let events = async {
            let (flood, victims) = tokio::join!(
                run_flood(&network, started, may_end),
                fail_relays(&network, &mut programs, started, &progress, failed)
            );
            progress.flood_ended(Instant::now());
            Ok::<_, DemoError>((flood?, victims?))
        };
        let (events, ()) = tokio::join!(events, downloads.run(|| progress.is_over(Instant::now())));
        events
    };
    let (flood, victims) = tokio::select! {
        flood = work => flood?,
        failed = watch.run(&mut view) => match failed? {},
    };
    view.clear();
    programs.check()?;
    let hidden = hiding.finish(directory.path()).map_err(DemoError::Capture)?;
    let story = Story { set_up, flood, victims, hidden };
    Ok(AttackReport::new(story, &downloads.finish()?, watch.seen()))
}

/// What was done, and what came of it.
struct Story {
    set_up: Duration,
    flood: Flood,
    victims: Vec<Victim>,
    hidden: HidingReport,
}

/// What becomes of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// It is killed, without a word.
    Killed,
    /// It loses all datagrams, and goes on to answer whoever asks how it is.
    Swallows,
}

/// A relay that failed.
struct Victim {
    name: String,
    failure: Failure,
    at: Duration,
}

/// Makes relays fail that the clients use, and says so a while later. None does if they use none.
async fn fail_relays(
    network: &AttackNetwork,
    programs: &mut Programs,
    started: Instant,
    progress: &Progress,
    done: oneshot::Sender<()>,
) -> Result<Vec<Victim>, DemoError> {
    let mut victims = Vec::new();
    let patience = FLOOD_AT + FLOOD_FOR[1];
    while !progress.is_around() && started.elapsed() < patience {
        sleep(POLL).await;
    }
    for (after, failure) in FAILURES {
        sleep(after).await;
        let Some(name) = relay_in_use(programs, &victims).await else { continue };
        match failure {
            Failure::Killed => programs.kill(&name),
            Failure::Swallows => network.relay(&name).map_or(Ok(()), |relay| relay.swallow_udp(PORT))?,
        }
        victims.push(Victim { name, failure, at: started.elapsed() });
    }
    sleep(AFTER_FAILURES).await;
    // It may have lasted as long as it can.
    let _ = done.send(());
    Ok(victims)
}

/// A relay that the coordinator has chosen, and that has not failed.
async fn relay_in_use(programs: &Programs, failed: &[Victim]) -> Option<String> {
    let status = programs.sockets().coordinator().await?;
    let mut relays = status.services.first()?.routes.values().flatten();
    relays.find(|relay| failed.iter().all(|victim| victim.name != **relay)).cloned()
}

async fn run_flood(
    network: &AttackNetwork,
    started: Instant,
    may_end: oneshot::Receiver<()>,
) -> Result<Flood, DemoError> {
    sleep_until((started + FLOOD_AT).into()).await;
    let rate = u64::from(LINE_MBPS) * 1_000_000 * u64::from(FLOOD_FACTOR);
    Flood::run(network, rate, started, FLOOD_FOR, may_end).await
}
