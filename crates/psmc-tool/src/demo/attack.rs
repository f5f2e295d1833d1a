//! `psmc demo --attack`: a service is flooded, and its clients do not notice.
//!
//! The service `www.example.com` has a line of its own, and two more that nobody knows. Two clients download from it
//! through the tunnel, straight. Then an attacker floods the line with ten times what it carries. The guard notices, the
//! coordinator chooses relays, the gateway registers with them over its hidden lines, the relays are published in DNS, and
//! the clients go through them, until the flood is over. In the middle of it one of the relays is killed, and replaced.
//!
//! ```text
//!  home ───┐                      ┌── main ───┐
//!  office ─┤   ┌── fra1, ams1, ───┤           │
//!          ├── inet    lon1       ├── alt1 ───┼── site ── www
//!  attacker┤    │                 │           │  psmcd, guard
//!  ops ────┘    └─────────────────┴── alt2 ───┘
//!  coordinator, name server
//! ```
//!
//! | module | what it has |
//! |---|---|
//! | `network` | the namespaces and lines |
//! | `programs`, `files` | the programs of all of them, and their configurations |
//! | `name` | what the clients' resolvers answer |
//! | `download` | the clients' downloads |
//! | `flood` | what the attacker sends |
//! | `hiding` | whether clients see where the hidden lines are |
//! | `watch` | when what happened |
//! | `report` | what is printed at the end |
//! | `root` | `psmc demo --root`: the same network and programs, with a root name server behind the line |

mod download;
mod files;
mod flood;
mod hiding;
mod name;
mod network;
mod programs;
mod report;
mod root;
mod watch;

use std::time::{Duration, Instant};

use tokio::time::sleep_until;

use super::DemoError;
use super::sites::Directory;
use super::view::View;
use download::Downloads;
use flood::Flood;
use hiding::{Hiding, HidingReport};
use network::{CLIENTS, LINE_MBPS, Network};
use programs::Programs;
pub(super) use report::AttackReport;
pub(super) use root::demonstrate as demonstrate_root;
use watch::Watch;

/// The service's name.
const SERVICE: &str = "www.example.com";

/// When the flood begins, after the start of the downloads: by then the guard knows what is usual.
const FLOOD_AT: Duration = Duration::from_secs(8);

/// When a relay is killed, after the start of the downloads: the clients have gone through it for some seconds.
const RELAY_FAILS_AT: Duration = Duration::from_secs(13);

/// How long the flood lasts.
const FLOOD_FOR: Duration = Duration::from_secs(10);

/// How long the downloads go on afterwards: until the clients are back on the direct way, and then some.
const AFTERWARDS: Duration = Duration::from_secs(14);

/// How many times the line's rate is sent to it.
const FLOOD_FACTOR: u32 = 10;

/// Everything from making the network to the report. To drop it ends all programs and removes what was made.
pub(super) async fn demonstrate(keep: Option<&std::path::Path>) -> Result<AttackReport, DemoError> {
    let directory = Directory::new(keep)?;
    let mut view = View::new();
    view.note(&format!(
        "{SERVICE} behind a line of {LINE_MBPS} Mbit/s and two more that nobody knows; three relays; clients {}",
        CLIENTS.join(" and ")
    ));
    let network = Network::new()?;
    let hiding = Hiding::start(&network)?;
    let mut programs = Programs::start(&network, SERVICE, directory.path()).await?;
    let set_up = programs.wait_until_up().await?;
    view.note(&format!(
        "eleven programs are up, and both clients reach the service, after {} ms",
        set_up.as_millis()
    ));
    let mut downloads = Downloads::start(&network).await?;
    let started = Instant::now();
    let mut watch = Watch::new(started, &programs);
    let work = async {
        let (flood, (), victim) = tokio::join!(
            run_flood(&network, started),
            downloads.run(started + whole()),
            fail_a_relay(&mut programs, started)
        );
        Ok::<_, DemoError>((flood?, victim))
    };
    let (flood, victim) = tokio::select! {
        flood = work => flood?,
        failed = watch.run(&mut view) => match failed? {},
    };
    view.clear();
    programs.check()?;
    let hidden = hiding.finish(directory.path()).map_err(DemoError::Capture)?;
    let story = Story { set_up, flood, victim, hidden };
    Ok(AttackReport::new(story, &downloads.finish()?, watch.seen()))
}

/// How long the downloads take.
fn whole() -> Duration {
    FLOOD_AT + FLOOD_FOR + AFTERWARDS
}

/// What was done, and what came of it.
struct Story {
    set_up: Duration,
    flood: Flood,
    victim: Option<Victim>,
    hidden: HidingReport,
}

/// A relay that was killed.
struct Victim {
    name: String,
    at: Duration,
}

/// Kills a relay that the clients use, without a word. There is none if they use none.
async fn fail_a_relay(programs: &mut Programs, started: Instant) -> Option<Victim> {
    sleep_until((started + RELAY_FAILS_AT).into()).await;
    let status = programs.sockets().coordinator().await?;
    let name = status.services.first()?.routes.values().flatten().next()?.clone();
    programs.kill(&name);
    Some(Victim { name, at: started.elapsed() })
}

async fn run_flood(network: &Network, started: Instant) -> Result<Flood, DemoError> {
    sleep_until((started + FLOOD_AT).into()).await;
    let rate = u64::from(LINE_MBPS) * 1_000_000 * u64::from(FLOOD_FACTOR);
    Flood::run(network, rate, started, FLOOD_FOR).await
}
