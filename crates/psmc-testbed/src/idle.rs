//! How much of the processors' time is left over.

use std::fs;

/// Time of all processors since the system started, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticks {
    idle: u64,
    all: u64,
}

impl Ticks {
    /// Until now; `None` if the system does not tell.
    pub(crate) fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// The first line of `/proc/stat`, proc_stat(5): user, nice, system, idle, iowait, irq, softirq and steal. The time of guests,
    /// which follows, is in that of users.
    fn parse(text: &str) -> Option<Self> {
        let fields = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8);
        let ticks: Vec<u64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
        Some(Self { idle: ticks.get(3)? + ticks.get(4)?, all: ticks.iter().sum() })
    }

    /// The part of the time since then, from 0 to 1, in which processors had nothing to do.
    pub(crate) fn idle_since(self, then: Self) -> f64 {
        let all = self.all.saturating_sub(then.all).max(1);
        self.idle.saturating_sub(then.idle).min(all) as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_a_disk_has_nothing_to_do_and_what_is_stolen_is_gone() {
        let of = |text: &str| Ticks::parse(&format!("{text}\ncpu0 1 2 3 4 5 6 7 8 9 10\n")).unwrap();
        let then = of("cpu  100 10 20 1000 30 0 5 0 7 0");
        assert_eq!(of("cpu  110 10 20 1020 40 0 5 60 17 0").idle_since(then), 0.3);
        assert_eq!(then.idle_since(then), 0.0);
    }

    #[test]
    fn another_file_says_nothing() {
        for text in ["", "intr 1 2 3", "cpu  1 2 3", "cpu  1 2 3 many 5 6 7 8"] {
            assert_eq!(Ticks::parse(text), None, "{text}");
        }
    }

    #[test]
    fn this_machine_says_how_busy_it_is() {
        let then = Ticks::now().unwrap();
        let idle = Ticks::now().unwrap().idle_since(then);
        assert!((0.0..=1.0).contains(&idle), "{idle}");
    }
}
