//! A profile as a file.

use std::fmt::{self, Display};
use std::time::Duration;

use psmc_sim::link::Discipline;
use psmc_toml::rate_text;

use super::{Confidence, DevicePort, DeviceProfile, DeviceSize, Figure, Provenance, VERSION};

impl DeviceProfile {
    /// What its file says.
    #[must_use]
    pub fn to_toml(&self) -> String {
        fmt::from_fn(|f| self.write(f)).to_string()
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# What a device is like: docs/ROUTERS.md says what the numbers mean.")?;
        writeln!(f, "version = {VERSION}\nname = {}", quoted(&self.name))?;
        self.provenance.write(f)?;
        self.ports.iter().try_for_each(|port| port.write(f))?;
        if let Some(cpu) = &self.cpu {
            let time = cpu.time.points().first().map_or(Duration::ZERO, |(_, time)| *time);
            writeln!(f, "\n[cpu]\ntime = \"{}\"\ncontrol = \"{}\"", micros(time), micros(cpu.control))?;
            writeln!(f, "ring = {}\nshared = {}", cpu.ring, cpu.is_shared)?;
        }
        self.sizes.iter().try_for_each(|size| size.write(self.provenance.confidence, f))
    }
}

impl Provenance {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n[provenance]\nconfidence = \"{}\"", self.confidence.as_str())?;
        writeln!(f, "source = {}", quoted(&self.source))?;
        if let Some(made) = &self.made {
            writeln!(f, "made = {}", quoted(made))?;
        }
        if let Some([least, noise]) = self.machine {
            writeln!(f, "# What the machine adds to a delay, which was subtracted.")?;
            writeln!(f, "machine = \"{}\"\nmachine_95 = \"{}\"", micros(least), micros(noise))?;
        }
        if !self.remarks.is_empty() {
            let remarks: Vec<_> =
                self.remarks.iter().map(|remark| format!("\n    {},", quoted(remark))).collect();
            writeln!(f, "remarks = [{}\n]", remarks.concat())?;
        }
        Ok(())
    }
}

impl DevicePort {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n[[port]]\ncount = {}\nrate = \"{}\"", self.count, rate_text(self.rate))?;
        writeln!(f, "framing = {}", self.framing)?;
        if (self.queue - 1.0).abs() > f64::EPSILON {
            writeln!(f, "queue = {}", self.queue)?;
        }
        if matches!(self.discipline, Discipline::CoDel { .. }) {
            writeln!(f, "discipline = \"codel\"")?;
        }
        if !self.extra.is_zero() {
            writeln!(f, "extra = \"{}\"", micros(self.extra))?;
        }
        Ok(())
    }
}

impl DeviceSize {
    fn write(&self, inherited: Confidence, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds =
            |value: f64| format!("\"{}\"", micros(Duration::try_from_secs_f64(value).unwrap_or_default()));
        let number = |value: f64| format!("{:.*}", if value < 100.0 { 4 } else { 1 }, value);
        writeln!(f, "\n[[size]]\nbytes = {}", self.bytes)?;
        writeln!(f, "delay = {}", self.delay.shown(inherited, seconds))?;
        writeln!(f, "served = {}", self.served.shown(inherited, number))?;
        writeln!(f, "queued = {}", self.queued.shown(inherited, number))
    }
}

impl Figure {
    fn shown(&self, inherited: Confidence, number: impl Fn(f64) -> String) -> impl Display {
        let super::Estimate { value, low, high } = self.estimate;
        if low >= value && high <= value && self.confidence == inherited {
            return number(value);
        }
        let mut text = format!("{{ value = {}, low = {}", number(value), number(low.min(value)));
        if high.is_finite() {
            text += &format!(", high = {}", number(high.max(value)));
        }
        if self.confidence != inherited {
            text += &format!(", confidence = \"{}\"", self.confidence.as_str());
        }
        text + " }"
    }
}

fn micros(time: Duration) -> String {
    format!("{:.3}us", time.as_secs_f64() * 1e6)
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}
