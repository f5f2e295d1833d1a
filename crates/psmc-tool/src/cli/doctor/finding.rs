//! What can be found, by its name, and how it is told.

use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

use super::nat::Nat;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Severity {
    /// Something does not work, or not as it is configured.
    Wrong,
    /// It works, and a person should know.
    Notice,
}

impl Severity {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Wrong => "wrong",
            Self::Notice => "notice",
        }
    }
}

/// Declares all that can be found: names are stable, for scripts; `docs/TROUBLESHOOTING.md` has the same table.
macro_rules! faults {
    ($($fault:ident $name:literal $severity:ident $meaning:literal)*) => {
        /// What can be found.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Fault { $(#[doc = $meaning] $fault),* }

        impl Fault {
            /// All of them, in the order in which they are told.
            #[cfg(test)]
            pub(super) const ALL: &[Self] = &[$(Self::$fault),*];

            /// Its name, which is stable.
            pub(super) fn name(self) -> &'static str {
                match self { $(Self::$fault => $name),* }
            }

            pub(super) fn severity(self) -> Severity {
                match self { $(Self::$fault => Severity::$severity),* }
            }

            /// What it is, in a line.
            #[cfg(test)]
            pub(super) fn meaning(self) -> &'static str {
                match self { $(Self::$fault => $meaning),* }
            }
        }
    };
}

faults! {
    ConfigInvalid "config-invalid" Wrong "the configuration has a mistake, or two settings contradict each other"
    KeyFileMissing "key-file-missing" Wrong "there is no file at `private_key_file`"
    KeyFileUnreadable "key-file-unreadable" Wrong "the file of the private key cannot be read"
    KeyFileExposed "key-file-exposed" Wrong "another user owns the file of the private key, or can read or write it"
    KeyFileWrong "key-file-wrong" Wrong "the file of the private key is empty, or holds something else"
    TunMissing "tun-missing" Wrong "there is no TUN device: no `/dev/net/tun`, or no driver"
    TunDenied "tun-denied" Wrong "root may not open `/dev/net/tun`, as in a container without the device"
    FewOpenFiles "open-files-low" Wrong "psmcd may have fewer files open than the configuration needs"
    ClockWrong "clock-wrong" Wrong "the clock is far behind: grants, invitations and signed routes count by it"
    DaemonDead "daemon-dead" Wrong "psmcd has ended without removing its control socket: it was killed, or has crashed"
    DaemonSilent "daemon-silent" Wrong "psmcd runs, but does not answer on its control socket"
    OtherSite "socket-of-another-site" Wrong "the psmcd on the control socket of the configuration has another key"
    PortInUse "port-in-use" Wrong "psmcd does not run, and another program has its port"
    ProgramMissing "program-missing" Wrong "a program that the configuration needs is not installed"
    CgroupMissing "cgroup-missing" Wrong "a control group of `exclude` does not exist"
    QuotaUnknown "quota-unknown" Wrong "the file with what was used of quotas cannot be read"
    Hidden "network-hidden" Wrong "a network of a peer is also one of this machine, which takes precedence"
    RouteConflict "route-conflict" Wrong "packets for a network of a peer leave by another interface than the tunnel's"
    UplinkInside "uplink-inside" Wrong "an uplink has an address in the tunnel's own network"
    StrictFilter "rp-filter-strict" Wrong "`rp_filter` drops what comes from peers that dial in over an uplink"
    FirewallDrops "firewall-drops" Wrong "a firewall on this machine drops datagrams or connections of the tunnel"
    ForwardingOff "forwarding-off" Wrong "packets for a network behind this machine arrive, or are announced, and it forwards none"
    ChecksumErrors "checksum-errors" Wrong "datagrams arrive with wrong checksums: something on the way corrupts them"
    NameUnresolved "name-unresolved" Wrong "the name of an endpoint has no address"
    EndpointIsOwn "endpoint-is-own" Wrong "the endpoint of a peer is an address of this machine"
    NoUplink "no-uplink" Wrong "no interface has a default route, nor a route to the peer"
    NoCommonVersion "no-common-version" Wrong "uplinks and endpoint have no version of IP in common"
    InterfaceMissing "interface-missing" Wrong "the interface of a path does not exist"
    InterfaceDown "interface-down" Wrong "the interface of a path is down, or has no carrier"
    AddressMissing "address-missing" Wrong "the local address of a path is none of this machine's"
    InterfaceNoAddress "interface-no-address" Wrong "the interface of a path has no address of the endpoint's version of IP"
    NoRoute "no-route" Wrong "no route leads to the peer over an uplink"
    CaptivePortal "captive-portal" Wrong "the network behind an uplink wants somebody to sign in"
    GatewaySilent "gateway-silent" Wrong "the router of an uplink does not answer"
    PeerUnreachable "peer-unreachable" Wrong "nothing comes back from the peer over an uplink"
    PeerNotListening "peer-not-listening" Wrong "nobody listens at the endpoint: the host is there, psmcd is not"
    TcpBlocked "tcp-blocked" Wrong "UDP works over an uplink, TCP does not"
    UdpBlocked "udp-blocked" Wrong "TCP works over an uplink, UDP does not"
    MtuTooSmall "mtu-too-small" Wrong "the way to a peer carries packets of less than 1280 bytes"
    HandshakeStalls "handshake-stalls" Wrong "TCP connects, but the handshake has no end: larger packets vanish, or the peer hangs"
    PeerKeyWrong "peer-key-wrong" Wrong "the endpoint answers with another key than `public_key`"
    OwnKeyRefused "own-key-refused" Wrong "the peer does not know this site's key"
    PeerNotPsmc "peer-not-psmc" Wrong "another program listens at the endpoint"
    ProtocolDiffers "protocol-differs" Wrong "the peer speaks another version of the protocol"
    RelayFailing "relay-failing" Wrong "a relay on a path does not serve"
    NatForgets "nat-forgets" Wrong "a NAT forgets a path that rests before that is asked for a sign of life"
    PathDead "path-dead" Wrong "a path does not work, for another reason"
    PeerDown "peer-down" Wrong "there is no connection to a peer, for another reason"
    KeyMayBePublic "key-may-be-public" Notice "the private key has the form of a public one"
    DaemonNotRunning "daemon-not-running" Notice "psmcd does not run for this configuration"
    NotReloaded "not-reloaded" Notice "the running psmcd has other peers than the file"
    VersionDiffers "version-differs" Notice "psmcd and psmc are of different releases"
    KernelOld "kernel-old" Notice "the kernel is older than Linux 5.0, which costs throughput"
    ClockFree "clock-unsynchronised" Notice "nothing keeps the clock right"
    NetworkdRemoves "networkd-removes-rules" Notice "systemd-networkd removes the tunnel's rules whenever it starts"
    NameServerOutside "name-server-outside" Notice "a name server of `dns` is behind no peer"
    QuotaUsedUp "quota-used-up" Notice "an uplink has used its quota up"
    BesideTunnel "ipv6-beside-tunnel" Notice "IPv4 goes through the tunnel, and IPv6 leaves outside"
    Overlap "network-overlaps" Notice "a local network lies within one of a peer, and stays local"
    ForwardsNothing "forwards-nothing" Notice "this machine forwards nothing, if peers want to reach a network behind it"
    PeerVersionDiffers "peer-version-differs" Notice "a peer runs another release of psmcd"
    BehindNat "behind-nat" Notice "the site's own `endpoint` is none of its addresses: a router has to forward its port"
    KeepaliveLong "keepalive-long" Notice "behind a NAT, an idle path is asked less often than many NATs remember it"
    MtuBlackHole "mtu-black-hole" Notice "packets of an uplink's MTU vanish on the way, and no router says so"
    PeerNotCalled "peer-not-called" Notice "a peer that dials in does not do so"
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) fault: Fault,
    /// Whom or what it is about: a peer, an interface; empty for the machine.
    pub(super) about: String,
    /// What was seen.
    pub(super) seen: String,
    /// What to do.
    pub(super) remedy: String,
}

impl Finding {
    pub(super) fn new(
        fault: Fault,
        about: impl Into<String>,
        seen: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { fault, about: about.into(), seen: seen.into(), remedy: remedy.into() }
    }
}

/// All that was found.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    /// The configuration.
    pub(super) file: PathBuf,
    /// The site, if the file is right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) site: Option<String>,
    /// What is wrong comes first.
    pub(super) findings: Vec<Finding>,
    /// What becomes of the addresses of uplinks on the way: nothing is wrong with any of it.
    #[serde(rename = "nat")]
    pub(super) nats: Vec<Nat>,
    /// What could not be looked at, and why.
    pub(super) unseen: Vec<String>,
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown<'a> {
            name: &'static str,
            severity: Severity,
            #[serde(skip_serializing_if = "str::is_empty")]
            about: &'a str,
            seen: &'a str,
            remedy: &'a str,
        }
        let Self { fault, about, seen, remedy } = self;
        Shown { name: fault.name(), severity: fault.severity(), about, seen, remedy }.serialize(serializer)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.site {
            Some(site) => writeln!(f, "site {site}, {}", self.file.display())?,
            None => writeln!(f, "{}", self.file.display())?,
        }
        for Finding { fault, about, seen, remedy } in &self.findings {
            let of = if about.is_empty() { String::new() } else { format!(" ({about})") };
            write!(
                f,
                "\n{}: {}{of}\n  seen   {seen}\n  to do  {remedy}\n",
                fault.severity().name(),
                fault.name()
            )?;
        }
        if !self.nats.is_empty() {
            f.write_str("\naddresses of uplinks, as peers see them\n")?;
        }
        for nat in &self.nats {
            writeln!(f, "  {nat}")?;
        }
        if !self.unseen.is_empty() {
            f.write_str("\nnot looked at\n")?;
        }
        for unseen in &self.unseen {
            writeln!(f, "  {unseen}")?;
        }
        let count =
            |severity| self.findings.iter().filter(|found| found.fault.severity() == severity).count();
        match (count(Severity::Wrong), count(Severity::Notice)) {
            (0, 0) => f.write_str("\nnothing is wrong\n"),
            (0, notices) => writeln!(f, "\nnothing is wrong; {notices} to notice"),
            (wrong, notices) => writeln!(f, "\n{wrong} wrong, {notices} to notice"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUIDE: &str = include_str!("../../../../../docs/TROUBLESHOOTING.md");

    #[test]
    fn the_guide_has_the_same_table() {
        let row = |fault: &Fault| {
            format!("| `{}` | {} | {} |", fault.name(), fault.severity().name(), fault.meaning())
        };
        let expected: Vec<_> = Fault::ALL.iter().map(row).collect();
        let (_, table) = GUIDE.split_once("| Name | | Meaning |\n|---|---|---|\n").unwrap();
        let (table, _) = table.split_once("\n\n").unwrap();
        assert_eq!(
            table.lines().collect::<Vec<_>>(),
            expected,
            "the table should be\n{}",
            expected.join("\n")
        );
    }

    #[test]
    fn a_report_says_what_was_seen_and_what_to_do() {
        let finding = Finding::new(Fault::UdpBlocked, "hq over wan0", "no reply", "allow UDP");
        let mut report =
            Report { file: "van.toml".into(), site: Some("van".to_owned()), ..Report::default() };
        assert_eq!(report.to_string(), "site van, van.toml\n\nnothing is wrong\n");
        report.findings.push(finding);
        report.unseen.push("the firewall: only root may".to_owned());
        assert_eq!(
            report.to_string(),
            "site van, van.toml\n\nwrong: udp-blocked (hq over wan0)\n  seen   no reply\n  to do  allow UDP\n\
             \nnot looked at\n  the firewall: only root may\n\n1 wrong, 0 to notice\n"
        );
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["findings"][0]["name"], "udp-blocked");
        assert_eq!(json["findings"][0]["severity"], "wrong");
    }
}
