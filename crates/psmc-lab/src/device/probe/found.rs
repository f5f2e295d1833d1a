//! The profile of what was found.

use std::time::Duration;

use jiff::{Timestamp, Unit};
use psmc_sim::profiler::{Estimate, Profile, SizeProfile};

use super::calibration::Calibration;
use super::trial::Remarks;
use super::{ProbeOptions, micros};
use crate::device::draft::AMOUNTS;
use crate::device::{Confidence, DevicePort, DeviceProfile, DeviceSize, Figure, Provenance};

/// The share of a number that the machine's noise may be.
const DOUBTFUL: f64 = 0.1;

/// Puts together what was found, and says how much each number is worth.
pub(super) fn profile(
    options: &ProbeOptions,
    found: &Profile,
    calibration: &Calibration,
    seen: &Remarks,
) -> DeviceProfile {
    let sizes: Vec<_> = found.sizes.iter().map(|size| judged(size, calibration)).collect();
    let machine = [calibration.subtracted(), calibration.noise()];
    let provenance = Provenance {
        confidence: Confidence::Measured,
        source: format!("psmc-lab {} profile --ports {}", env!("CARGO_PKG_VERSION"), options.ports.join(",")),
        made: Timestamp::now().round(Unit::Second).ok().map(|now| now.to_string()),
        machine: Some(machine),
        remarks: remarks(&sizes, calibration, seen),
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is below the nominal rate"
    )]
    let rate = found.rate.value as u64;
    let ports = vec![DevicePort::new(found.plan.ports, rate, found.plan.framing)];
    DeviceProfile { name: options.name.clone(), provenance, ports, sizes, cpu: None }
}

fn judged(size: &SizeProfile, calibration: &Calibration) -> DeviceSize {
    let noise = calibration.noise().as_secs_f64();
    let is_doubtful = !calibration.is_quiet() && noise > DOUBTFUL * size.delay.value;
    let figure = |estimate: Estimate, is_doubtful: bool| Figure {
        estimate,
        confidence: match (estimate.high.is_finite(), is_doubtful) {
            (false, _) => Confidence::AtLeast,
            (true, true) => Confidence::Doubtful,
            (true, false) => Confidence::Measured,
        },
    };
    DeviceSize {
        bytes: size.len,
        delay: figure(size.delay, is_doubtful),
        served: figure(amount(size.served), is_doubtful),
        queued: figure(amount(size.queued), false),
    }
}

/// A number of packets as a profile may have it: nothing is zero, and what a bad fit makes of noise is no bound.
fn amount(estimate: Estimate) -> Estimate {
    const LEAST: f64 = 1e-3;
    let most = *AMOUNTS.end();
    let high = if estimate.high <= most { estimate.high.max(LEAST) } else { f64::INFINITY };
    Estimate { value: estimate.value.clamp(LEAST, most), low: estimate.low.clamp(LEAST, most), high }
}

fn remarks(sizes: &[DeviceSize], calibration: &Calibration, seen: &Remarks) -> Vec<String> {
    let mut remarks = Vec::new();
    let of = |wanted: Confidence, figure: fn(&DeviceSize) -> Figure| {
        let sizes = sizes.iter().filter(|size| figure(size).confidence == wanted);
        sizes.map(|size| size.bytes.to_string()).collect::<Vec<_>>().join(", ")
    };
    let doubtful = of(Confidence::Doubtful, |size| size.delay);
    if !doubtful.is_empty() {
        remarks.push(format!(
            "this machine was too noisy: do not trust delay and served of {doubtful} bytes, of which its noise of {:.0} µs is more than a tenth",
            micros(calibration.noise())
        ));
    } else if !calibration.is_quiet() {
        let (noise, most) = (micros(calibration.noise()), micros(super::NOISE));
        remarks.push(format!(
            "this machine was noisy, by {noise:.0} µs instead of at most {most:.0}: delays may be as much too long"
        ));
    }
    let served = of(Confidence::AtLeast, |size| size.served);
    if !served.is_empty() {
        remarks.push(format!("packets of {served} bytes never came faster than they were served"));
    }
    let queued = of(Confidence::AtLeast, |size| size.queued);
    if !queued.is_empty() {
        remarks.push(format!("no queue was ever full of packets of {queued} bytes"));
    }
    if seen.reordered > 0 {
        let percent = 100.0 * seen.reordered as f64 / seen.arrived.max(1) as f64;
        remarks
            .push(format!("{percent:.3} % of packets arrived behind later ones, which the model never does"));
    }
    if sizes.iter().any(|size| Duration::from_secs_f64(size.delay.estimate.value).is_zero()) {
        remarks.push("delays of zero are shorter than what this machine adds".to_owned());
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_fit_makes_of_noise_is_no_bound() {
        let wild = amount(Estimate { value: 3e203, low: 0.0, high: 4e203 });
        assert_eq!((wild.value, wild.low, wild.high), (1e9, 1e-3, f64::INFINITY));
        let found = Estimate { value: 60.0, low: 58.0, high: 62.0 };
        assert_eq!(amount(found), found);
    }
}
