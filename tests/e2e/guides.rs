//! The pages of `docs/guides`: every command of theirs is typed, and every file written, on hosts like those that they describe.
//!
//! A block of a page says after its language what becomes of it: ```` ```sh on hq ```` is typed at `hq`;
//! ```` ```toml write to FILE on hq ```` is a file; `append to FILE` adds to its end, and `add to [site] of FILE` to a section. Of what
//! stands in a page as `…`, a key `# of van` is that of the van, and `psmc:…` is what was printed last.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use psmc_testbed::netns::{Namespace, link_pair};
use psmc_testbed::steadily::turn;
use tempfile::TempDir;

use crate::harness::Keyboard;

/// What a page has somebody do.
struct Block<'a> {
    /// `on` whom it is done.
    hosts: Vec<&'a str>,
    what: What<'a>,
    text: String,
}

enum What<'a> {
    Type,
    Write(&'a str),
    Append(&'a str),
    AddTo(&'a str, &'a str),
}

/// The blocks of a page. Those that say nothing of a host are for readers only.
fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let body = lines.by_ref().take_while(|line| *line != "```");
        let text: String = body.map(|line| format!("{line}\n")).collect();
        let Some((what, hosts)) = info.split_once(" on ") else { continue };
        let what = match what.split(' ').collect::<Vec<_>>().as_slice() {
            ["sh"] => What::Type,
            ["toml", "write", "to", file] => What::Write(file),
            ["toml", "append", "to", file] => What::Append(file),
            ["toml", "add", "to", section, "of", file] => What::AddTo(section, file),
            other => panic!("{other:?} cannot be done"),
        };
        blocks.push(Block { hosts: hosts.split(' ').collect(), what, text });
    }
    blocks
}

/// Hosts on an Internet of one router: headquarters, a relay, and a van with two uplinks. Each of the sites has a network behind it.
struct World {
    hosts: BTreeMap<&'static str, (Namespace, TempDir)>,
    _others: Vec<Namespace>,
}

impl World {
    fn new() -> Self {
        let router = Namespace::new().unwrap();
        router.sysctl("net.ipv4.ip_forward", "1").unwrap();
        // Any host on the Internet.
        router.add_address("lo", "198.51.100.70/32".parse().unwrap()).unwrap();
        let mut hosts = BTreeMap::new();
        for name in ["hq", "fra1", "van"] {
            hosts.insert(name, (Namespace::new().unwrap(), tempfile::tempdir().unwrap()));
        }
        let lines = [
            ("hq", "eth0", "203.0.113.5/24", "203.0.113.1"),
            ("fra1", "eth0", "198.51.100.9/28", "198.51.100.1"),
            ("van", "wan0", "192.0.2.2/26", "192.0.2.1"),
            ("van", "wan1", "192.0.2.66/26", "192.0.2.65"),
        ];
        for ((host, uplink, address, gateway), metric) in lines.into_iter().zip(100..) {
            let (namespace, _) = &hosts[host];
            let far = format!("{host}-{uplink}");
            link_pair(namespace, uplink, &router, &far).unwrap();
            let (_, length) = address.split_once('/').unwrap();
            namespace.add_address(uplink, address.parse().unwrap()).unwrap();
            router.add_address(&far, format!("{gateway}/{length}").parse().unwrap()).unwrap();
            let gateway = gateway.parse().unwrap();
            namespace.add_route_with_metric("0.0.0.0/0".parse().unwrap(), gateway, metric).unwrap();
        }
        let mut others = vec![router];
        for (host, address) in [("hq", "192.168.10.1/24"), ("van", "192.168.20.1/24")] {
            let lan = Namespace::new().unwrap();
            let (namespace, _) = &hosts[host];
            link_pair(namespace, "lan", &lan, "eth0").unwrap();
            namespace.add_address("lan", address.parse().unwrap()).unwrap();
            others.push(lan);
        }
        Self { hosts, _others: others }
    }
}

/// Does what a page says, in its order.
fn follow(page: &str) {
    let _turn = turn();
    let world = World::new();
    let keyboards: BTreeMap<_, _> = world
        .hosts
        .iter()
        .map(|(name, (host, folder))| (*name, Keyboard::new(host, folder.path())))
        .collect();
    let mut invitation: Option<String> = None;
    let blocks = blocks(page);
    assert!(blocks.len() > 3, "a page has somebody do something");
    for block in blocks {
        for host in block.hosts {
            let keyboard = &keyboards[host];
            match block.what {
                What::Type => {
                    let line = match &invitation {
                        Some(invitation) => block.text.replace("psmc:…", invitation),
                        None => block.text.clone(),
                    };
                    assert!(!line.contains('…'), "{line}");
                    let printed = keyboard.types(&line);
                    if let Some(uri) = printed.split('\'').find(|word| word.starts_with("psmc:")) {
                        invitation = Some(uri.to_owned());
                    }
                }
                What::Write(file) => {
                    let text = with_keys(&block.text, &keyboards);
                    keyboard.types(&format!("cat > {file} <<'END'\n{text}END"));
                }
                What::Append(file) => {
                    keyboard.types(&format!("cat >> {file} <<'END'\n{}END", block.text));
                }
                What::AddTo(section, file) => {
                    let before = keyboard.types(&format!("cat {file}"));
                    let title = format!("\n{section}\n");
                    assert_eq!(before.matches(&title).count(), 1, "{before}");
                    let after = before.replace(&title, &format!("{title}{}", block.text));
                    keyboard.types(&format!("cat > {file} <<'END'\n{after}END"));
                }
            }
        }
    }
}

/// A file with the keys that it only speaks of.
fn with_keys(text: &str, keyboards: &BTreeMap<&str, Keyboard<'_>>) -> String {
    let line = |line: &str| match line.split_once("# of ") {
        Some((setting, host)) => {
            let key = keyboards[host].types(&format!("cat /etc/psmc*/{host}.key | psmc pubkey"));
            setting.replace('…', key.trim())
        }
        None => line.to_owned(),
    };
    text.lines().map(|text| line(text) + "\n").collect()
}

#[test]
fn a_van_with_two_uplinks_and_a_rented_server() {
    follow(include_str!("../../docs/guides/VAN.md"));
}

#[test]
fn a_branch_office() {
    follow(include_str!("../../docs/guides/BRANCH.md"));
}

#[test]
fn a_server_behind_relays() {
    follow(include_str!("../../docs/guides/BEHIND-RELAYS.md"));
}

/// Nothing that a document points to is missing.
#[test]
fn the_documents_point_to_files_that_are_there() {
    let mut links = 0;
    for folder in [".", "docs", "docs/guides", "docs/decisions"] {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            for target in targets.filter(|target| !target.contains(':') && !target.starts_with('#')) {
                let file = target.split('#').next().unwrap();
                let there = path.parent().unwrap_or(Path::new(".")).join(file);
                assert!(there.exists(), "{}: {target}", path.display());
                links += 1;
            }
        }
    }
    assert!(links > 100, "{links}");
}
