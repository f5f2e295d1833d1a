//! What processes, and the machine, have run.

use std::error::Error;
use std::fs;

use nix::unistd::{SysconfVar, sysconf};

/// What processes, or the machine, have run so far, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used(f64);

impl Used {
    /// By these processes, in user mode and in the kernel.
    pub(crate) fn by(processes: &[u32]) -> Result<Self, Box<dyn Error>> {
        let mut ticks = 0;
        for process in processes {
            let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
            // The name, in parentheses, is the second field, and utime and stime the 14th and 15th (proc(5)).
            let (_, fields) = text.rsplit_once(')').ok_or("the kernel's format has changed")?;
            ticks += sum(fields.split_whitespace().skip(11).take(2))?;
        }
        Self::of_ticks(ticks)
    }

    /// By the whole machine: everything but idling.
    pub(crate) fn by_machine() -> Result<Self, Box<dyn Error>> {
        let text = fs::read_to_string("/proc/stat")?;
        let fields: Vec<_> = text.lines().next().unwrap_or_default().split_whitespace().skip(1).collect();
        // user, nice, system; then idle and iowait; then irq and softirq (proc(5)).
        Self::of_ticks(sum(fields.iter().copied().take(3))? + sum(fields.iter().copied().skip(5).take(2))?)
    }

    /// What has run since then, in seconds.
    pub(crate) fn since(self, then: Self) -> f64 {
        self.0 - then.0
    }

    #[expect(clippy::cast_precision_loss, reason = "an uptime in ticks is far below 2^52")]
    fn of_ticks(ticks: u64) -> Result<Self, Box<dyn Error>> {
        let per_second = sysconf(SysconfVar::CLK_TCK)?.ok_or("the kernel has no clock tick")?;
        Ok(Self(ticks as f64 / per_second as f64))
    }
}

fn sum<'a>(fields: impl Iterator<Item = &'a str>) -> Result<u64, Box<dyn Error>> {
    Ok(fields.map(str::parse::<u64>).sum::<Result<u64, _>>()?)
}
