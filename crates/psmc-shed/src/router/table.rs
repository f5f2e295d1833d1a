//! Rules in nftables: a table of our own, in which the kernel itself ends what is not renewed.
//!
//! Each server has a chain with its rules, the most specific first, and a set whose elements time out. Packets come to the
//! chain only while the set has an element, so that a router whose agent was killed forwards everything as soon as the
//! rules have ended. Each rule has a chain that counts what comes, and drops what is beyond its limit.
//!
//! nftables lets pass what a limit of bytes has saved up, which is a second of it at most, and begins with as much
//! (`nft_limit_init` of the kernel). So a limit is replaced only where it changes by more than `MIN_CHANGE`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use psmc_net::nft::{NftError, counters, nft, replacing, table_name};
use psmc_toml::{InterfaceName, Name};
use thiserror::Error;

use super::register::{Register, Rule, ServerId};
use crate::class::Class;

/// A limit stays as it is unless the wanted one is further from it than this part of it: less than a line's rate is known to,
/// and a limit that is replaced lets a second of traffic pass.
const MIN_CHANGE: f64 = 0.03;

/// What a limit lets pass beyond its rate, in bytes: one packet as large as they come, for the kernel joins those of a flow.
const BURST: u64 = 65_536;

/// Where packets meet the rules.
#[derive(Clone, Copy, Debug)]
enum Hook {
    /// Where they are forwarded: before the rules of other tables, which have 0 and see less then.
    Forward,
    /// Where they come in, whoever they are for.
    Arrivals,
}

impl Hook {
    /// As nftables has it.
    fn as_str(self) -> &'static str {
        match self {
            Self::Forward => "forward priority filter - 10",
            Self::Arrivals => "prerouting priority mangle",
        }
    }
}

/// Why rules are not in force.
#[derive(Debug, Error)]
pub enum TableError {
    /// There is no nftables, or it refuses.
    #[error("cannot change the rules in nftables")]
    Nft(#[from] NftError),
    /// Somebody has removed the table.
    #[error("the table is gone from nftables")]
    Gone,
}

/// What has come for a rule since it was installed, in bytes of IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// What has come.
    pub offered: u64,
    /// What of it was dropped.
    pub dropped: u64,
}

/// A rule, by its server and what that calls it.
pub type RuleName = (ServerId, Name);

/// The table. It is removed when this is dropped.
#[derive(Debug)]
pub struct Table {
    name: String,
    hook: Hook,
    interfaces: Vec<InterfaceName>,
    servers: BTreeMap<ServerId, Installed>,
    is_enforced: bool,
    /// The number of the next rule: counters of one never go on as those of another.
    next: u64,
}

/// What the table has for a server.
#[derive(Debug, Default)]
struct Installed {
    prefixes: Vec<IpNet>,
    rules: BTreeMap<Name, InstalledRule>,
    until: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct InstalledRule {
    number: u64,
    class: Class,
    limit: Option<u64>,
}

impl Table {
    /// Makes the table, without rules, in place of one that an agent of the same name may have left. Packets count that leave
    /// through one of `interfaces`, or any that is forwarded if there are none.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn set_up(name: &Name, interfaces: &[InterfaceName]) -> Result<Self, TableError> {
        Self::new(table_name("psmc_shed", name.as_str()), Hook::Forward, interfaces.to_vec())
    }

    /// Makes a table beside that, for what comes to this machine, whoever it is for.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn set_up_to_count(name: &Name) -> Result<Self, TableError> {
        Self::new(table_name("psmc_shed_arrivals", name.as_str()), Hook::Arrivals, Vec::new())
    }

    fn new(name: String, hook: Hook, interfaces: Vec<InterfaceName>) -> Result<Self, TableError> {
        nft(&["-f", "-"], &empty(&name, hook))?;
        Ok(Self { name, hook, interfaces, servers: BTreeMap::new(), is_enforced: false, next: 0 })
    }

    /// Brings the table to what holds, in one transaction. Limits count only if they are `enforced`.
    ///
    /// # Errors
    /// [`TableError`]; then nothing has changed.
    pub fn apply(&mut self, register: &Register, enforced: bool, now: Instant) -> Result<(), TableError> {
        let mut script = String::new();
        let mut servers = BTreeMap::new();
        let mut next = self.next;
        for (id, held) in register.held() {
            let installed = Installed {
                prefixes: register.prefixes(*id),
                rules: BTreeMap::new(),
                until: Some(held.until),
            };
            servers.insert(*id, self.install(*id, &held.rules, installed, &mut next, &mut script));
            let last = self.servers.get(id).and_then(|last| last.until);
            if last != Some(held.until) {
                let left = held.until.saturating_duration_since(now).max(MIN_TIMEOUT);
                script += &self.renewal(*id, left);
            }
        }
        let heads = |servers: &BTreeMap<ServerId, Installed>| -> Vec<(ServerId, Vec<IpNet>)> {
            servers.iter().map(|(id, installed)| (*id, installed.prefixes.clone())).collect()
        };
        let gone: Vec<ServerId> =
            self.servers.keys().filter(|id| !servers.contains_key(id)).copied().collect();
        if heads(&servers) != heads(&self.servers) {
            script += &self.heads(&servers);
        }
        for id in gone {
            script += &self.removal(id);
        }
        if enforced != self.is_enforced {
            let verb = if enforced { "add" } else { "delete" };
            let _ = writeln!(script, "{verb} element inet {} enforced {{ ipv4, ipv6 }}", self.name);
        }
        if !script.is_empty() {
            nft(&["-f", "-"], &script)?;
        }
        (self.servers, self.is_enforced, self.next) = (servers, enforced, next);
        Ok(())
    }

    /// Makes the table anew, for somebody has removed it. Rules are in it again after [`apply`](Self::apply).
    ///
    /// # Errors
    /// [`TableError`].
    pub fn restore(&mut self) -> Result<(), TableError> {
        nft(&["-f", "-"], &empty(&self.name, self.hook))?;
        (self.servers, self.is_enforced) = (BTreeMap::new(), false);
        Ok(())
    }

    /// What has come for each rule.
    ///
    /// # Errors
    /// [`TableError`], most often because somebody has removed the table.
    pub fn counts(&self) -> Result<BTreeMap<RuleName, Bytes>, TableError> {
        let bytes = counters(&self.name).map_err(NftError::Counters)?;
        let of = |what: &str, number: u64| bytes.get(&format!("{what}_{number}")).copied();
        let rules = self.servers.iter().flat_map(|(server, installed)| {
            installed.rules.iter().map(move |(name, rule)| ((*server, name.clone()), rule.number))
        });
        let count = |number| Some(Bytes { offered: of("offered", number)?, dropped: of("dropped", number)? });
        rules
            .map(|(name, number)| Some((name, count(number)?)))
            .collect::<Option<_>>()
            .ok_or(TableError::Gone)
    }

    /// Adds to `script` what brings a server's rules to these.
    fn install(
        &self,
        id: ServerId,
        rules: &[Rule],
        mut installed: Installed,
        next: &mut u64,
        script: &mut String,
    ) -> Installed {
        let nothing = Installed::default();
        let before = self.servers.get(&id).unwrap_or(&nothing);
        let (table, ServerId(server)) = (&self.name, id);
        if before.until.is_none() {
            let _ =
                writeln!(script, "add set inet {table} alive_{server} {{ type nf_proto; flags timeout; }}");
            let _ = writeln!(script, "add chain inet {table} server_{server}");
        }
        for rule in rules {
            let last = before.rules.get(&rule.name).filter(|last| last.class == rule.class);
            let number = last.map_or_else(
                || {
                    *next += 1;
                    *next
                },
                |last| last.number,
            );
            let limit = match last {
                Some(last) if is_near(last.limit, rule.rate) => last.limit,
                Some(_) | None => {
                    *script += &self.chain(number, rule.rate, last.is_none());
                    rule.rate
                }
            };
            installed.rules.insert(rule.name.clone(), InstalledRule { number, class: rule.class, limit });
        }
        let numbers = |installed: &Installed| -> BTreeSet<u64> {
            installed.rules.values().map(|rule| rule.number).collect()
        };
        let (old, new) = (numbers(before), numbers(&installed));
        if old != new {
            let _ = writeln!(script, "flush chain inet {table} server_{server}");
            for rule in rules {
                let Some(InstalledRule { number, .. }) = installed.rules.get(&rule.name) else { continue };
                let matched = rule.class.nft_match();
                let _ =
                    writeln!(script, "add rule inet {table} server_{server} {matched} goto rule_{number}");
            }
        }
        old.difference(&new).for_each(|number| *script += &self.removal_of_rule(*number));
        installed
    }

    /// The chain of a rule.
    fn chain(&self, number: u64, limit: Option<u64>, is_new: bool) -> String {
        let table = &self.name;
        let mut script = String::new();
        if is_new {
            let _ = writeln!(script, "add counter inet {table} offered_{number}");
            let _ = writeln!(script, "add counter inet {table} dropped_{number}");
            let _ = writeln!(script, "add chain inet {table} rule_{number}");
        } else {
            let _ = writeln!(script, "flush chain inet {table} rule_{number}");
        }
        let _ = writeln!(script, "add rule inet {table} rule_{number} counter name offered_{number}");
        let beyond = match limit {
            None => return script,
            // nftables has no limit of nothing.
            Some(0) => String::new(),
            Some(rate) => format!("limit rate over {rate} bytes/second burst {BURST} bytes "),
        };
        let _ = writeln!(
            script,
            "add rule inet {table} rule_{number} meta nfproto @enforced {beyond}counter name dropped_{number} drop"
        );
        script
    }

    /// Has a server's rules last so long from now on.
    fn renewal(&self, ServerId(server): ServerId, left: Duration) -> String {
        let (table, left) = (&self.name, left.as_millis());
        format!(
            "flush set inet {table} alive_{server}\n\
             add element inet {table} alive_{server} {{ ipv4 timeout {left}ms, ipv6 timeout {left}ms }}\n"
        )
    }

    /// What sends packets to the chains of servers.
    fn heads(&self, servers: &BTreeMap<ServerId, Installed>) -> String {
        let table = &self.name;
        let mut script = format!("flush chain inet {table} packets\n");
        let names: Vec<String> = self.interfaces.iter().map(|name| format!("\"{name}\"")).collect();
        if !names.is_empty() {
            let names = names.join(", ");
            let _ = writeln!(script, "add rule inet {table} packets oifname != {{ {names} }} accept");
        }
        for (ServerId(server), installed) in servers {
            for (family, is_v4) in [("ip", true), ("ip6", false)] {
                let nets = IpNet::aggregate(&installed.prefixes);
                let of_family = nets.iter().filter(|net| net.addr().is_ipv4() == is_v4);
                let prefixes: Vec<String> = of_family.map(ToString::to_string).collect();
                if prefixes.is_empty() {
                    continue;
                }
                let _ = writeln!(
                    script,
                    "add rule inet {table} packets {family} daddr {{ {} }} meta nfproto @alive_{server} jump server_{server}",
                    prefixes.join(", ")
                );
            }
        }
        script
    }

    /// Removes all of a server, to which nothing leads any more.
    fn removal(&self, id: ServerId) -> String {
        let (table, ServerId(server)) = (&self.name, id);
        let mut script =
            format!("flush chain inet {table} server_{server}\ndelete chain inet {table} server_{server}\n");
        let rules = self.servers.get(&id).into_iter().flat_map(|installed| installed.rules.values());
        rules.for_each(|rule| script += &self.removal_of_rule(rule.number));
        let _ = writeln!(script, "delete set inet {table} alive_{server}");
        script
    }

    fn removal_of_rule(&self, number: u64) -> String {
        let table = &self.name;
        format!(
            "flush chain inet {table} rule_{number}\ndelete chain inet {table} rule_{number}\n\
             delete counter inet {table} offered_{number}\ndelete counter inet {table} dropped_{number}\n"
        )
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if let Err(error) = nft(&["delete", "table", "inet", &self.name], "") {
            tracing::warn!(error = crate::error_chain(&error), "cannot remove the rules from nftables");
        }
    }
}

/// The script that makes the table, without rules, in place of any other of its name.
fn empty(table: &str, hook: Hook) -> String {
    let hook = hook.as_str();
    let script = format!(
        "table inet {table} {{\n\
         set enforced {{ type nf_proto; }}\n\
         chain packets {{\n\
         type filter hook {hook}; policy accept;\n\
         }}\n\
         }}\n"
    );
    replacing(table, Some(&script))
}

/// Whether a limit may stay where another is wanted.
fn is_near(installed: Option<u64>, wanted: Option<u64>) -> bool {
    match (installed, wanted) {
        (None, None) => true,
        (Some(installed), Some(wanted)) => {
            #[expect(clippy::cast_precision_loss, reason = "a difference is not told to sixteen digits")]
            let (installed, wanted) = (installed as f64, wanted as f64);
            (installed - wanted).abs() <= installed * MIN_CHANGE
        }
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// The shortest time for which rules are renewed: what is about to end is ended by the register.
const MIN_TIMEOUT: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::process::Command;

    use psmc_net::keys::PrivateKey;
    use psmc_testbed::netns::{Namespace, link_pair};
    use psmc_testbed::poll::wait_for;

    use super::*;
    use crate::config::Owner;
    use crate::message::{Rules, Wanted};

    const HQ: ServerId = ServerId(0);

    fn register(rules: &[(u32, &str, Option<u64>)], lifetime_ms: u64) -> Register {
        let owner = Owner {
            name: "hq".parse().unwrap(),
            public_key: PrivateKey::from_seed([1; 32]).public(),
            prefixes: ["10.2.0.0/16", "10.2.3.0/24", "2001:db8::/32"]
                .map(|net| net.parse().unwrap())
                .to_vec(),
            max_rules: 10,
            max_lifetime: Duration::from_secs(60),
        };
        let mut register = Register::new(vec![owner]);
        say(&mut register, 1, rules, lifetime_ms);
        register
    }

    fn say(register: &mut Register, serial: u64, rules: &[(u32, &str, Option<u64>)], lifetime_ms: u64) {
        let rules = rules.iter().map(|(number, destination, rate)| Wanted {
            name: number.to_string(),
            destination: (*destination).to_owned(),
            source: None,
            protocol: Some(17),
            ports: Some((7, 9)),
            rate: *rate,
        });
        let said = Rules { serial, expires_ms: lifetime_ms, rules: rules.collect() };
        let taken = register.handle_rules(HQ, &said, 0, Instant::now()).unwrap();
        assert_eq!(taken.refused, []);
    }

    fn ruleset() -> String {
        String::from_utf8(nft(&["list", "ruleset"], "").unwrap().stdout).unwrap()
    }

    fn table(interfaces: &[&str]) -> Table {
        let interfaces: Vec<InterfaceName> = interfaces.iter().map(|name| name.parse().unwrap()).collect();
        Table::set_up(&"r-1.a".parse().unwrap(), &interfaces).unwrap()
    }

    #[test]
    fn the_table_is_made_changed_and_removed_as_a_whole() {
        Namespace::new().expect("this test needs root").run(|| {
            nft(&["add", "table", "inet", "others"], "").unwrap();
            let mut table = table(&["eth1", "eth2"]);
            let now = Instant::now();
            let mut register =
                register(&[(1, "10.2.3.4/32", Some(125_000)), (2, "10.2.0.0/16", None)], 60_000);
            table.apply(&register, false, now).unwrap();
            assert!(ruleset().contains("limit rate over 125000 bytes/second"), "{}", ruleset());
            assert_eq!(table.counts().unwrap().len(), 2);
            let before = ruleset();
            say(&mut register, 2, &[(1, "10.2.3.4/32", Some(126_000)), (2, "10.2.0.0/16", None)], 60_000);
            table.apply(&register, false, now).unwrap();
            assert!(ruleset().contains("rate over 125000"), "near enough:\n{before}\n{}", ruleset());
            say(&mut register, 3, &[(1, "10.2.3.4/32", Some(0)), (4, "2001:db8::5/128", Some(9))], 60_000);
            table.apply(&register, true, now).unwrap();
            assert!(
                !ruleset().contains("rate over 125000") && ruleset().contains("rate over 9 "),
                "{}",
                ruleset()
            );
            assert_eq!(
                table.counts().unwrap().into_keys().map(|(_, name)| name.to_string()).collect::<Vec<_>>(),
                ["1", "4"]
            );
            say(&mut register, 4, &[], 60_000);
            table.apply(&register, true, now).unwrap();
            assert!(!ruleset().contains("rule_") && !ruleset().contains("alive"), "{}", ruleset());
            // What was left by one that has crashed.
            say(&mut register, 5, &[(1, "10.2.3.4/32", Some(77))], 60_000);
            table.apply(&register, true, now).unwrap();
            std::mem::forget(table);
            let table = self::table(&[]);
            assert!(!ruleset().contains("77"), "{}", ruleset());
            drop(table);
            assert_eq!(ruleset().trim(), "table inet others {\n}");
        });
    }

    /// A host on either side of a router.
    fn routed() -> [Namespace; 3] {
        let [client, router, server] = [(); 3].map(|()| Namespace::new().expect("this test needs root"));
        link_pair(&client, "eth0", &router, "eth0").unwrap();
        link_pair(&router, "eth1", &server, "eth0").unwrap();
        for (host, interface, address) in [
            (&client, "eth0", "10.1.0.2/24"),
            (&router, "eth0", "10.1.0.1/24"),
            (&router, "eth1", "10.2.3.1/24"),
            (&server, "eth0", "10.2.3.4/24"),
        ] {
            host.add_address(interface, address.parse().unwrap()).unwrap();
        }
        client.add_route("10.2.0.0/16".parse().unwrap(), "10.1.0.1".parse().unwrap()).unwrap();
        router.sysctl("net.ipv4.ip_forward", "1").unwrap();
        [client, router, server]
    }

    /// How many of twenty packets get through, which are sent at once.
    fn through(client: &Namespace, server: &UdpSocket, port: u16) -> usize {
        let sender = client.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
        for _ in 0..20 {
            sender.send_to(&[7; 972], ("10.2.3.4", port)).unwrap();
        }
        let mut buffer = [0; 2000];
        std::iter::from_fn(|| server.recv(&mut buffer).ok()).count()
    }

    #[test]
    fn the_kernel_ends_what_nobody_renews() {
        let [client, router, server] = routed();
        let (limited, other) = server.run(|| (UdpSocket::bind("10.2.3.4:7"), UdpSocket::bind("10.2.3.4:70")));
        let (limited, other) = (limited.unwrap(), other.unwrap());
        for socket in [&limited, &other] {
            socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        }
        let (table, left) = router.run(|| {
            let mut table = table(&["eth1"]);
            let register = register(&[(1, "10.2.3.4/32", Some(0))], 2_000);
            let now = Instant::now();
            table.apply(&register, true, now).unwrap();
            (table, now + Duration::from_secs(2))
        });
        assert_eq!((through(&client, &limited, 7), through(&client, &other, 70)), (0, 20));
        let count = router.run(|| table.counts().unwrap())[&(HQ, "1".parse().unwrap())];
        assert_eq!(count, Bytes { offered: 20_000, dropped: 20_000 });
        // Killed: nobody removes anything.
        std::mem::forget(table);
        let all = wait_for("everything is forwarded", Duration::from_secs(30), || {
            (through(&client, &limited, 7) == 20).then(Instant::now)
        });
        assert!(all >= left - Duration::from_millis(100), "no sooner than it should be");
        assert!(
            router.run(|| Command::new("nft").args(["list", "ruleset"]).output()).unwrap().status.success()
        );
    }
}
