//! Traces of a varying rate, in the format of Mahimahi.

use std::num::ParseIntError;

use super::transmitter::Nanos;

/// Delivery opportunities in the format of Mahimahi: at each of them 1500 bytes can leave.
///
/// A line for each opportunity says at how many milliseconds from the start it is; several may be at the same time.
/// The last line is also the period after which the trace repeats.
///
/// Packets are sent as Mahimahi's link does it: what a packet leaves of an opportunity serves the next packets, if
/// they are there at that moment, and is lost otherwise; a packet of more than 1500 bytes, or one that begins in what
/// another has left, takes several opportunities and leaves at the last of them.
///
/// Unlike there, times of packets are finer than milliseconds: one that enters just at an opportunity still takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// In milliseconds: not empty, not decreasing, the last not zero.
    opportunities: Vec<u64>,
}

/// Why a text is no trace. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line is not a number.
    #[error("line {line}: `{text}` is not a whole number of milliseconds")]
    NotANumber {
        /// Which line.
        line: usize,
        /// What it says.
        text: String,
        /// What is wrong with it.
        source: ParseIntError,
    },
    /// A line is later than a link can live.
    #[error("line {line}: {milliseconds} ms is more than {MAX_MILLISECONDS} ms, which is a year")]
    TooLate {
        /// Which line.
        line: usize,
        /// What it says.
        milliseconds: u64,
    },
    /// A line goes back in time.
    #[error(
        "line {line}: {milliseconds} ms is before the {before} ms of the line above; times must not decrease"
    )]
    Decreasing {
        /// Which line.
        line: usize,
        /// What it says.
        milliseconds: u64,
        /// What the line above says.
        before: u64,
    },
    /// There is no line.
    #[error("no opportunity: a trace has a line for each, with its time in milliseconds")]
    Empty,
    /// All lines are zero.
    #[error("the last line is 0 ms, but it is also the period after which the trace repeats")]
    NoPeriod,
}

/// No opportunity is later: sums of such times, in nanoseconds, stay far below 2^64.
const MAX_MILLISECONDS: u64 = 366 * 24 * 3600 * 1000;

/// Bytes that leave at an opportunity: a full packet, from the IP header on.
pub(super) const OPPORTUNITY_BYTES: u64 = 1500;

const NANOS_PER_MILLISECOND: u64 = 1_000_000;

impl Trace {
    /// Reads a trace.
    ///
    /// # Errors
    ///
    /// If a line is not a number or before the one above it, if there is none, or if all are zero.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut opportunities = Vec::new();
        for (index, text) in text.lines().enumerate() {
            let before = opportunities.last().copied().unwrap_or(0);
            opportunities.push(parse_line(index + 1, text.trim(), before)?);
        }
        match opportunities.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::NoPeriod),
            Some(_) => Ok(Self { opportunities }),
        }
    }

    /// Bits per second over a whole period, at least 1.
    #[must_use]
    pub fn mean_rate(&self) -> u64 {
        let bits = u128::from(self.per_period()) * u128::from(8 * OPPORTUNITY_BYTES) * 1_000_000_000;
        u64::try_from(bits / u128::from(self.period())).unwrap_or(u64::MAX).max(1)
    }

    /// When an opportunity is, from the start; the first has number 0.
    pub(super) fn opportunity(&self, number: u64) -> Nanos {
        let in_period = usize::try_from(number % self.per_period()).unwrap_or(0);
        let periods = number / self.per_period();
        Nanos(periods.saturating_mul(self.period()))
            .after(Nanos(self.opportunities[in_period] * NANOS_PER_MILLISECOND))
    }

    /// How many opportunities are before `at`, counted from the start.
    pub(super) fn opportunities_before(&self, at: Nanos) -> u64 {
        // The last opportunity of a period is at the start of the next one, hence periods have their end, not their
        // beginning.
        let periods = at.0.saturating_sub(1) / self.period();
        let rest = at.0 - periods * self.period();
        let in_period = self.opportunities.partition_point(|&time| time * NANOS_PER_MILLISECOND < rest);
        periods.saturating_mul(self.per_period()).saturating_add(in_period as u64)
    }

    fn per_period(&self) -> u64 {
        self.opportunities.len() as u64
    }

    fn period(&self) -> u64 {
        self.opportunities.last().map_or(1, |&last| last * NANOS_PER_MILLISECOND)
    }
}

fn parse_line(line: usize, text: &str, before: u64) -> Result<u64, TraceError> {
    let milliseconds: u64 =
        text.parse().map_err(|source| TraceError::NotANumber { line, text: text.to_owned(), source })?;
    if milliseconds > MAX_MILLISECONDS {
        return Err(TraceError::TooLate { line, milliseconds });
    }
    if milliseconds < before {
        return Err(TraceError::Decreasing { line, milliseconds, before });
    }
    Ok(milliseconds)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn complaint(text: &str) -> String {
        Trace::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        assert_eq!(complaint("1\nx\n3"), "line 2: `x` is not a whole number of milliseconds");
        assert_eq!(complaint("1\n\n3"), "line 2: `` is not a whole number of milliseconds");
        assert_eq!(complaint("-1"), "line 1: `-1` is not a whole number of milliseconds");
        assert_eq!(
            complaint("5\n3"),
            "line 2: 3 ms is before the 5 ms of the line above; times must not decrease"
        );
        assert_eq!(
            complaint("31622400001"),
            "line 1: 31622400001 ms is more than 31622400000 ms, which is a year"
        );
        assert_eq!(
            complaint(""),
            "no opportunity: a trace has a line for each, with its time in milliseconds"
        );
        assert_eq!(
            complaint("0\n0"),
            "the last line is 0 ms, but it is also the period after which the trace repeats"
        );
    }

    #[test]
    fn lines_may_end_as_on_other_systems() {
        assert_eq!(Trace::parse("1\r\n2\r\n"), Trace::parse("1\n2"));
    }

    proptest! {
        #[test]
        fn counting_agrees_with_looking(mut times in proptest::collection::vec(0u64..20, 1..20), at in 0u64..100_000) {
            times.sort_unstable();
            *times.last_mut().unwrap() += 1;
            let period = times[times.len() - 1];
            let trace = Trace { opportunities: times.clone() };
            let all = (0..).flat_map(|round| times.iter().map(move |time| (round * period + time) * 1_000_000));
            let at = at * 1000;
            let before: Vec<u64> = all.clone().take_while(|&time| time < at).collect();
            prop_assert_eq!(trace.opportunities_before(Nanos(at)), before.len() as u64);
            let listed: Vec<u64> = (0..before.len() as u64).map(|number| trace.opportunity(number).0).collect();
            prop_assert_eq!(listed, before);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[0-9\n -]{0,40}") {
            let _ = Trace::parse(&text);
        }
    }
}
