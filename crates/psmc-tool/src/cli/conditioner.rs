//! `psmc conditioner`: the profiles of a site's classes, for routers that are not ours.

use std::fmt::{self, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ipnet::IpNet;
use psmc_core::condition::{AssuredClass, Conditioning, Mode, Precedence};
use psmcd::config::{Class, Config};

use super::{CliError, output};

#[derive(Debug, Subcommand)]
pub(super) enum ConditionerCommand {
    /// Print the profiles of a configuration for another program
    ///
    /// What can be said there: token buckets for each class, and code points (RFC 2597). Flows are not told apart:
    ///
    ///   psmc conditioner export --nft /etc/psmc/van.toml | nft -f -
    #[command(verbatim_doc_comment)]
    Export(ExportArgs),
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// For nftables, as a table of its own
    #[arg(long, required = true)]
    nft: bool,
    /// The configuration of a site, in TOML
    file: PathBuf,
}

pub(super) fn run(command: ConditionerCommand) -> Result<(), CliError> {
    let ConditionerCommand::Export(ExportArgs { nft: _, file }) = command;
    let config = Config::load(&file)?;
    let text = fmt::from_fn(|f| write_table(&config.site.classes, f)).to_string();
    Ok(output::print(&text)?)
}

/// All classes of the file, in their order: a packet belongs to the first that takes it.
fn write_table(classes: &[Class], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "# Drop precedences by token buckets: within the rate, within twice the rate, beyond.")?;
    writeln!(f, "# A conditioner of psmcd tells flows apart besides; nftables has no words for that.")?;
    writeln!(f, "table inet psmc_conditioner {{")?;
    for (number, class) in (1..).zip(classes) {
        if let Some(conditioning) = class.conditioning.filter(|conditioning| conditioning.mode != Mode::Off) {
            write_profile(number, class, conditioning, f)?;
        }
    }
    writeln!(f, "\tchain forward {{\n\t\ttype filter hook forward priority mangle; policy accept;")?;
    for (number, class) in (1..).zip(classes) {
        let marks = class.conditioning.is_some_and(|conditioning| conditioning.mode != Mode::Off);
        let verdict = if marks { format!("goto profile_{number}") } else { "accept".to_owned() };
        matches(class).iter().try_for_each(|packets| writeln!(f, "\t\t{packets}{verdict}"))?;
    }
    writeln!(f, "\t}}\n}}")
}

/// The chains of a class: two token buckets in a row, and a code point for each of three ways out.
fn write_profile(
    number: usize,
    class: &Class,
    conditioning: Conditioning,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let Conditioning { profile, mark, .. } = conditioning;
    let mark = mark.or(AssuredClass::new(1));
    for precedence in Precedence::ALL {
        let (dp, dscp) = (precedence.number(), mark.map_or(0, |mark| mark.dscp(precedence)));
        writeln!(f, "\tchain profile_{number}_dp{dp} {{")?;
        // Or the class of a packet would be its priority in a queue of Linux, in which AFx2 goes before AFx1.
        writeln!(f, "\t\tmeta priority set 0:0")?;
        writeln!(f, "\t\tmeta nfproto ipv4 ip dscp set {dscp} counter accept")?;
        writeln!(f, "\t\tmeta nfproto ipv6 ip6 dscp set {dscp} counter accept\n\t}}")?;
    }
    let bucket =
        format!("limit rate {} bytes/second burst {} bytes", profile.rate.div_ceil(8), profile.burst);
    writeln!(f, "\tchain profile_{number} {{ # {}", class.name)?;
    writeln!(f, "\t\t{bucket} goto profile_{number}_dp0")?;
    writeln!(f, "\t\t{bucket} goto profile_{number}_dp1")?;
    writeln!(f, "\t\tgoto profile_{number}_dp2\n\t}}")
}

/// What a rule says of a class' packets; one rule for each combination of version and end.
fn matches(class: &Class) -> Vec<String> {
    let mut rules = Vec::new();
    for version in Version::of(class) {
        let ends = if class.ports.is_empty() { &[""][..] } else { &["sport", "dport"] };
        rules.extend(ends.iter().filter_map(|end| version.rule(class, end)));
    }
    rules
}

/// What a rule is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V4,
    V6,
    Any,
}

impl Version {
    fn of(class: &Class) -> &'static [Self] {
        let says = !class.dscp.is_empty() || !class.from.is_empty() || !class.to.is_empty();
        if says { &[Self::V4, Self::V6] } else { &[Self::Any] }
    }

    fn word(self) -> &'static str {
        if self == Self::V6 { "ip6" } else { "ip" }
    }

    fn has(self, network: IpNet) -> bool {
        matches!((self, network), (Self::V4, IpNet::V4(_)) | (Self::V6, IpNet::V6(_)) | (Self::Any, _))
    }

    /// The rule, unless the class has nothing of this version.
    fn rule(self, class: &Class, end: &str) -> Option<String> {
        let mut rule = String::new();
        let word = self.word();
        let dscp = class.dscp.iter().map(u8::to_string);
        say(&mut rule, &format!("{word} dscp"), dscp);
        for (side, networks) in [("saddr", &class.from), ("daddr", &class.to)] {
            let of_version =
                networks.iter().map(|network| network.net()).filter(|network| self.has(*network));
            let mut of_version = of_version.map(|network| network.to_string()).peekable();
            if !networks.is_empty() && of_version.peek().is_none() {
                return None;
            }
            say(&mut rule, &format!("{word} {side}"), of_version);
        }
        say(&mut rule, "meta l4proto", class.protocols.iter().map(u8::to_string));
        let port = |ports: &std::ops::RangeInclusive<u16>| format!("{}-{}", ports.start(), ports.end());
        say(&mut rule, &format!("th {end}"), class.ports.iter().map(port));
        Some(rule)
    }
}

/// Adds that something has one of these values, if there are any.
fn say(rule: &mut String, what: &str, values: impl Iterator<Item = String>) {
    let values = values.collect::<Vec<_>>().join(", ");
    if !values.is_empty() {
        let _ = write!(rule, "{what} {{ {values} }} ");
    }
}
