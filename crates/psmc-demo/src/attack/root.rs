//! `psmc demo --root`: a root name server is flooded, and resolvers go on to ask it (PSMC fig. 3.4).
//!
//! The network and the programs are those of `psmc demo --attack`; the service is BIND, unmodified, as a root name server. Three
//! resolvers, each a BIND as well, are asked for names that nobody has asked for before, so that each question makes them ask
//! the root. Two of them have psmcd beside them, and so another way when the line is flooded; the third one has not.
//! Questions are small, and find room in the queue of the flooded line where larger packets do not: the flood costs the third
//! resolver time rather than answers.

mod servers;

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use psmc_testbed::netns::Namespace;
use serde::Serialize;
use tokio::sync::oneshot;
use tokio::time::{sleep, sleep_until};

use super::FLOOD_FACTOR;
use super::network::{AttackNetwork, CLIENTS, LINE_MBPS, WWW};
use super::programs::Programs;
use super::report::{last, since};
use super::traffic::{Flood, address_of};
use super::watch::{Progress, Seen, Watch};
use crate::DemoError;
use crate::launch::{Directory, POLL};
use crate::report::{aligned, round};
use crate::view::View;
use servers::{Asked, EVERY, Questions, Servers, WAITS};

/// Everything from making the network to the report. To drop it ends all programs and removes what was made.
pub(crate) async fn demonstrate(keep: Option<&Path>) -> Result<RootReport, DemoError> {
    let directory = Directory::new(keep)?;
    let mut view = View::new();
    view.note(&format!(
        "a root name server (BIND) behind a line of {LINE_MBPS} Mbit/s and two more that nobody knows; four relays; \
         three resolvers (BIND), {} and {} with psmcd beside them",
        CLIENTS[0], CLIENTS[1]
    ));
    let network = AttackNetwork::new()?;
    let plain = network.add_host(PLAIN)?;
    let mut programs = Programs::start(&network, SERVICE, directory.path()).await?;
    programs.wait_until_up().await?;
    for client in &network.clients {
        // Routes are looked for where somebody has asked for the name.
        let known = address_of(client, SERVICE);
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
async fn run_flood(
    network: &AttackNetwork,
    started: Instant,
    progress: &Progress,
) -> Result<Flood, DemoError> {
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

/// The results. Units are in the names: `_mbps` 10^6 bit/s, `_ms` milliseconds, `_per_s` for each second. A time is absent if what
/// it is about never happened.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RootReport {
    /// What the server's known line carries, headers counted.
    line_mbps: u32,
    /// What was sent to it.
    flood_mbps: f64,
    /// What each resolver was asked.
    asked_per_s: f64,
    /// From the first packet of the flood until the guard had found it.
    detect_ms: Option<f64>,
    /// From then on until the relays were published.
    published_ms: Option<f64>,
    /// From its being found until both resolvers with psmcd asked through relays.
    route_up_ms: Option<f64>,
    /// How many relays were published.
    relays: usize,
    /// From the end of the flood until both went straight again.
    back_ms: Option<f64>,
    resolvers: Vec<ResolverReport>,
}

#[derive(Clone, Debug, Serialize)]
struct ResolverReport {
    name: &'static str,
    /// Whether psmcd is beside it.
    routes: bool,
    before: Answers,
    /// In the flood, until both resolvers with psmcd asked through relays.
    in_between: Answers,
    /// In the flood, from then on.
    under_attack: Answers,
    /// After it, when all went straight again.
    after: Answers,
}

/// What came of what was asked in some time.
#[derive(Clone, Copy, Debug, Serialize, PartialEq)]
struct Answers {
    per_s: f64,
    /// Of those that came.
    median_ms: Option<f64>,
}

impl RootReport {
    fn new(flood: &Flood, asked: &[Vec<Asked>; 3], seen: &Seen, end: Duration) -> Self {
        let (around, back) = (last(&seen.around), last(&seen.back));
        let turned = around.unwrap_or(flood.end).min(flood.end);
        let answerable = end.saturating_sub(WAITS);
        let spans = [
            SETTLED..flood.start.saturating_sub(WAITS / 10),
            flood.start..turned,
            turned + SETTLED..flood.end.saturating_sub(WAITS),
            back.map_or(answerable..answerable, |back| back + SETTLED..answerable),
        ];
        let resolver = |(name, asked): (&'static str, &Vec<Asked>)| {
            let [before, in_between, under_attack, after] =
                spans.clone().map(|span| Answers::within(asked, &span));
            ResolverReport { name, routes: name != PLAIN, before, in_between, under_attack, after }
        };
        Self {
            line_mbps: LINE_MBPS,
            flood_mbps: round(flood.mbps),
            asked_per_s: round(1.0 / EVERY.as_secs_f64()),
            detect_ms: since(Some(flood.start), seen.detected),
            published_ms: since(seen.detected, seen.published),
            route_up_ms: since(seen.detected, around),
            relays: seen.relays,
            back_ms: since(Some(flood.end), back),
            resolvers: RESOLVERS.into_iter().zip(asked).map(resolver).collect(),
        }
    }

    /// The results as tables.
    pub(crate) fn table(&self) -> String {
        let row = |resolver: &ResolverReport| {
            let ResolverReport { before, in_between, under_attack, after, .. } = resolver;
            let all = [before, in_between, under_attack, after];
            let rates = all.map(|answers| format!("{:>6.1}", answers.per_s)).join("  ");
            let times = all.map(|answers| {
                answers.median_ms.map_or_else(|| format!("{:>6}", "–"), |ms| format!("{ms:>6.1}"))
            });
            [resolver.name.to_owned(), rates, times.join("  ")]
        };
        let header = ["RESOLVER", "answers/s: before  notice  attack   after", "median ms: the same"];
        let time = |ms: Option<f64>| ms.map_or_else(|| "never".to_owned(), |ms| format!("{ms:.0} ms"));
        format!(
            "\n{}\n\neach is asked     {:.0} times a second; {PLAIN} has no psmcd\n\
             flood             {:.0} Mbit/s to a line of {} Mbit/s\nfound             after {}\n\
             relays published  {} later, {} of them\nresolvers around  {} after the flood was found\n\
             resolvers back    {} after its end\n",
            aligned(header, self.resolvers.iter().map(row)),
            self.asked_per_s,
            self.flood_mbps,
            self.line_mbps,
            time(self.detect_ms),
            time(self.published_ms),
            self.relays,
            time(self.route_up_ms),
            time(self.back_ms)
        )
    }
}

impl Answers {
    /// To what was asked in this time.
    fn within(asked: &[Asked], span: &Range<Duration>) -> Self {
        let mut took: Vec<Duration> =
            asked.iter().filter(|asked| span.contains(&asked.at)).filter_map(|asked| asked.took).collect();
        took.sort_unstable();
        let length = span.end.saturating_sub(span.start).as_secs_f64();
        let per_s = if length > 0.0 { round(took.len() as f64 / length) } else { 0.0 };
        let median = took.get(took.len() / 2);
        Self { per_s, median_ms: median.map(|median| round(median.as_secs_f64() * 1e3)) }
    }
}

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

/// Until everybody knows the way, after the first question and after a change.
const SETTLED: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn answers_count_when_their_questions_were_asked() {
        let asked = [(0, Some(7)), (500, Some(9)), (900, None), (950, Some(1900)), (1000, Some(1))];
        let asked = asked.map(|(at, took)| Asked { at: ms(at), took: took.map(ms) });
        let second = Answers::within(&asked, &(ms(0)..ms(1000)));
        assert_eq!(second, Answers { per_s: 3.0, median_ms: Some(9.0) });
        let none = Answers::within(&asked, &(ms(900)..ms(900)));
        assert_eq!(none, Answers { per_s: 0.0, median_ms: None });
    }
}
