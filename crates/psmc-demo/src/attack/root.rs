//! `psmc demo --root`: a root name server is flooded, and resolvers go on to ask it (PSMC fig. 3.4).
//!
//! The network and the programs are those of `psmc demo --attack`; the service is BIND, unmodified, as a root name server. Three
//! resolvers, each a BIND as well, are asked for names that nobody has asked for before, so that each question makes them ask
//! the root. Two of them have psmcd beside them, and so another way when the line is flooded; the third one has not.
//! Questions are small, and find room in the queue of the flooded line where larger packets do not: the flood costs the third
//! resolver time rather than answers.
//!
//! | module | what it has |
//! |---|---|
//! | `bind` | the name servers and their configurations |
//! | `questions` | what resolvers are asked, and what comes back when |
//! | `report` | what is printed at the end |

mod bind;
mod questions;
mod report;

use std::path::Path;
use std::time::{Duration, Instant};

use psmc_testbed::netns::Namespace;
use tokio::sync::oneshot;
use tokio::time::{sleep, sleep_until};

use super::FLOOD_FACTOR;
use super::flood::Flood;
use super::name;
use super::network::{CLIENTS, LINE_MBPS, Network, WWW};
use super::programs::Programs;
use super::watch::{Progress, Watch};
use crate::DemoError;
use crate::sites::{Directory, POLL};
use crate::view::View;
use bind::Servers;
use questions::Questions;
use report::RootReport;

/// The name of the root name server, by which resolvers' own neighbours find routes to it.
const SERVICE: &str = "a-root.example.com";

/// The resolver that has no other way.
const PLAIN: &str = "plain";

/// All resolvers.
const RESOLVERS: [&str; 3] = [CLIENTS[0], CLIENTS[1], PLAIN];

/// When the flood begins, after the first question: by then the guard knows what is usual.
const FLOOD_AT: Duration = Duration::from_secs(7);

/// How long it lasts, and at most: on a busy machine everything takes its time.
const FLOOD_FOR: [Duration; 2] = [Duration::from_secs(8), Duration::from_secs(40)];

/// How long it goes on once the resolvers' questions go through relays.
const AROUND_FOR: Duration = Duration::from_secs(5);

/// Everything from making the network to the report. To drop it ends all programs and removes what was made.
pub(crate) async fn demonstrate(keep: Option<&Path>) -> Result<RootReport, DemoError> {
    let directory = Directory::new(keep)?;
    let mut view = View::new();
    view.note(&format!(
        "a root name server (BIND) behind a line of {LINE_MBPS} Mbit/s and two more that nobody knows; four relays; \
         three resolvers (BIND), {} and {} with psmcd beside them",
        CLIENTS[0], CLIENTS[1]
    ));
    let network = Network::new()?;
    let plain = network.add_host(PLAIN)?;
    let mut programs = Programs::start(&network, SERVICE, directory.path()).await?;
    programs.wait_until_up().await?;
    for client in &network.clients {
        // Routes are looked for where somebody has asked for the name.
        let known = name::address(client, SERVICE);
        known.map_err(|source| DemoError::Dns { of: SERVICE.to_owned(), source })?;
    }
    let resolvers = [&network.clients[0], &network.clients[1], &plain];
    let mut servers = Servers::start(&network.www, resolvers, directory.path()).await?;
    view.note("sixteen programs are up, and all resolvers have answers from the root");
    let started = Instant::now();
    let mut questions = ask(resolvers)?;
    let mut watch = Watch::new(started, &programs);
    let progress = watch.progress();
    let work = async {
        let [one, other, third] = &mut questions;
        let flood = run_flood(&network, started, &progress);
        // Until all go straight again, and then some.
        let is_over = || progress.is_over(Instant::now());
        let asked = [one, other, third].map(|questions| questions.run(started, is_over));
        let [one, other, third] = asked;
        tokio::try_join!(flood, one, other, third)
    };
    let flood = tokio::select! {
        done = work => done?.0,
        failed = watch.run(&mut view) => match failed? {},
    };
    let end = started.elapsed();
    view.clear();
    programs.check()?;
    servers.check()?;
    Ok(RootReport::new(&flood, &questions.map(Questions::into_asked), watch.seen(), end))
}

fn ask(resolvers: [&Namespace; 3]) -> Result<[Questions; 3], DemoError> {
    let [one, other, third] = resolvers;
    let ask = |place: usize, host: &Namespace| Questions::new(RESOLVERS[place], host);
    Ok([ask(0, one)?, ask(1, other)?, ask(2, third)?])
}

/// Floods the line until the questions of all who can have gone through relays for a while.
async fn run_flood(network: &Network, started: Instant, progress: &Progress) -> Result<Flood, DemoError> {
    sleep_until((started + FLOOD_AT).into()).await;
    let rate = u64::from(LINE_MBPS) * 1_000_000 * u64::from(FLOOD_FACTOR);
    let (gone, may_end) = oneshot::channel();
    let go = async {
        let patience = FLOOD_AT + FLOOD_FOR[1];
        while !progress.is_around() && started.elapsed() < patience {
            sleep(POLL).await;
        }
        sleep(AROUND_FOR).await;
        // It may have lasted as long as it can.
        let _ = gone.send(());
    };
    let (flood, ()) = tokio::join!(Flood::run(network, rate, started, FLOOD_FOR, may_end), go);
    progress.flood_ended(Instant::now());
    flood
}
