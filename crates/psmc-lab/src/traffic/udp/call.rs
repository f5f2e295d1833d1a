//! A call that follows the losses that it hears of (draft-ietf-rmcat-gcc-02, section 6), as those of browsers do.

use std::time::Duration;

/// Bytes of a report.
pub(super) const REPORT: usize = 16;

/// How often a receiver reports.
const INTERVAL: Duration = Duration::from_secs(1);

/// Of more than this share less is sent, by half of it.
const MUCH: f64 = 0.1;

/// Of less than this share more is sent, by so much.
const LITTLE: f64 = 0.02;
const GROWTH: f64 = 1.05;

/// With what a call begins, and the least that is of use as a picture, in bits per second.
const FIRST: f64 = 1e6;
const LEAST: f64 = 100e3;

/// What a receiver says of the time since its last report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// How many datagrams were sent, by their numbers.
    sent: u64,
    /// How many of these have arrived.
    arrived: u64,
}

impl Report {
    /// That of a datagram; `None` if it is too short.
    pub(super) fn read(datagram: &[u8]) -> Option<Self> {
        let (sent, rest) = datagram.split_first_chunk()?;
        let (arrived, _) = rest.split_first_chunk()?;
        Some(Self { sent: u64::from_be_bytes(*sent), arrived: u64::from_be_bytes(*arrived) })
    }

    pub(super) fn bytes(self) -> [u8; REPORT] {
        let mut bytes = [0; REPORT];
        let (sent, arrived) = bytes.split_at_mut(REPORT / 2);
        sent.copy_from_slice(&self.sent.to_be_bytes());
        arrived.copy_from_slice(&self.arrived.to_be_bytes());
        bytes
    }
}

/// Counts what arrives, for reports.
#[derive(Debug, Default)]
pub(super) struct Reporter {
    /// The first number that the next report is about, and the highest that was seen.
    first: u64,
    highest: u64,
    arrived: u64,
    reported_at: Duration,
}

impl Reporter {
    /// The datagram with this number has arrived. Returns the report, if one is due.
    pub(super) fn note(&mut self, number: u64, now: Duration) -> Option<Report> {
        self.highest = self.highest.max(number);
        self.arrived += 1;
        if now < self.reported_at + INTERVAL {
            return None;
        }
        let report = Report { sent: (self.highest + 1).saturating_sub(self.first), arrived: self.arrived };
        *self = Self { first: self.highest + 1, highest: self.highest, arrived: 0, reported_at: now };
        Some(report)
    }
}

/// The sender of a call.
#[derive(Debug)]
pub(super) struct Call {
    rate: f64,
    most: f64,
}

impl Call {
    /// One that sends at most so many bits per second.
    pub(super) fn new(most: u64) -> Self {
        let most = most as f64;
        Self { rate: FIRST.min(most), most }
    }

    /// Bits per second that it sends.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate below that of the file"
    )]
    pub(super) fn rate(&self) -> u64 {
        self.rate as u64
    }

    /// What it sends after this report.
    pub(super) fn follow(&mut self, report: &Report) -> u64 {
        let lost = report.sent.saturating_sub(report.arrived);
        let loss = lost as f64 / report.sent.max(1) as f64;
        if loss > MUCH {
            self.rate *= 1.0 - loss / 2.0;
        } else if loss < LITTLE {
            self.rate *= GROWTH;
        }
        self.rate = self.rate.clamp(LEAST.min(self.most), self.most);
        self.rate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_round_trips() {
        let report = Report { sent: 7 << 40, arrived: 5 };
        assert_eq!(Report::read(&report.bytes()), Some(report));
        assert_eq!(Report::read(&report.bytes()[..REPORT - 1]), None);
    }

    #[test]
    fn a_report_a_second_tells_what_is_missing() {
        let mut reporter = Reporter::default();
        let mut reports = Vec::new();
        // 100 datagrams a second, of which each tenth is lost.
        for number in (0..301).filter(|number| number % 10 != 5) {
            reports.extend(reporter.note(number, Duration::from_millis(number * 10)));
        }
        let of = |sent, arrived| Report { sent, arrived };
        assert_eq!(reports, [of(101, 91), of(100, 90), of(100, 90)]);
    }

    #[test]
    fn it_gives_way_to_losses_and_comes_back() {
        let mut call = Call::new(5_000_000);
        let after = |call: &mut Call, arrived, times| {
            (0..times).map(|_| call.follow(&Report { sent: 100, arrived })).last()
        };
        assert_eq!(call.rate(), 1_000_000);
        assert_eq!(after(&mut call, 100, 60), Some(5_000_000));
        assert_eq!(after(&mut call, 95, 60), Some(5_000_000), "neither much nor little");
        assert_eq!(after(&mut call, 50, 1), Some(3_750_000));
        assert_eq!(after(&mut call, 0, 60), Some(100_000));
    }
}
