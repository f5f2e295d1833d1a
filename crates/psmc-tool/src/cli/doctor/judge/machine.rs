//! The machine itself.

use std::time::{Duration, SystemTime};

use super::super::facts::{Machine, Tun};
use super::super::finding::{Fault, Finding};

/// The first kernel that joins and cuts datagrams in both directions (UDP GSO: Linux 4.18, GRO: 5.0).
const OFFLOADING_KERNEL: (u32, u32) = (5, 0);

/// A clock that is so much behind a file was wrong, now or then.
const BEHIND: Duration = Duration::from_secs(3600);

/// A machine without a battery for its clock starts in the year 1970, or when its image was made; 2024 began then.
const LONG_AGO: Duration = Duration::from_secs(1_704_067_200);

/// What follows from what was seen of the machine.
pub(in crate::cli::doctor) fn of_machine(machine: &Machine) -> Vec<Finding> {
    let mut findings: Vec<Finding> = of_tun(machine.tun).into_iter().chain(of_clock(machine)).collect();
    if let Some((major, minor)) = machine.kernel.filter(|kernel| *kernel < OFFLOADING_KERNEL) {
        findings.push(Finding::new(
            Fault::KernelOld,
            "",
            format!("this is Linux {major}.{minor}, which cannot send and receive many datagrams with one system call"),
            "nothing has to be done; Linux 5.0 or later is faster",
        ));
    }
    if machine.networkd_removes_rules {
        findings.push(Finding::new(
            Fault::NetworkdRemoves,
            "",
            "systemd-networkd runs, and no file says ManageForeignRoutingPolicyRules=no",
            "psmcd makes its rules again; to have them stay, put `ManageForeignRoutingPolicyRules=no` and \
             `ManageForeignRoutes=no` under [Network] in /etc/systemd/networkd.conf.d/psmc.conf",
        ));
    }
    findings
}

fn of_tun(tun: Tun) -> Option<Finding> {
    match tun {
        Tun::Fine => None,
        Tun::Missing => Some(Finding::new(
            Fault::TunMissing,
            "",
            "/dev/net/tun is missing, or has no driver",
            "`modprobe tun`; in a container, pass it on: `--device /dev/net/tun`",
        )),
        Tun::Denied => Some(Finding::new(
            Fault::TunDenied,
            "",
            "/dev/net/tun may not be opened, even by root",
            "in a container, pass it on: `--device /dev/net/tun`, or allow it (DeviceAllow=)",
        )),
    }
}

fn of_clock(machine: &Machine) -> Option<Finding> {
    let remedy = "set the clock, and have it kept right: `timedatectl set-ntp true`, or chrony";
    if machine.now < SystemTime::UNIX_EPOCH + LONG_AGO {
        return Some(Finding::new(Fault::ClockWrong, "", "the clock says that it is before 2024", remedy));
    }
    if machine.written.is_some_and(|written| written > machine.now + BEHIND) {
        let seen = "the configuration was written more than an hour after the time that the clock shows";
        return Some(Finding::new(Fault::ClockWrong, "", seen, remedy));
    }
    let is_free = machine.is_synchronised == Some(false);
    is_free.then(|| {
        let seen = "the kernel says that nothing keeps its clock right (adjtimex)";
        Finding::new(Fault::ClockFree, "", seen, "have it kept right: `timedatectl set-ntp true`, or chrony")
    })
}
