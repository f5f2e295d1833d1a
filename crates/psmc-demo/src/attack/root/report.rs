//! What is printed at the end.

use std::ops::Range;
use std::time::Duration;

use serde::Serialize;

use super::questions::{Asked, EVERY, WAITS};
use super::{LINE_MBPS, PLAIN, RESOLVERS};
use crate::attack::flood::Flood;
use crate::attack::report::{last, since};
use crate::attack::watch::Seen;
use crate::report::{aligned, round};

/// Until everybody knows the way, after the first question and after a change.
const SETTLED: Duration = Duration::from_secs(1);

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
    pub(super) fn new(flood: &Flood, asked: &[Vec<Asked>; 3], seen: &Seen, end: Duration) -> Self {
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
