//! Peers and paths written into the text of a configuration, of which all else stays as it is.

use std::net::IpAddr;

use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, Value, value};

use psmc_api::{PathSpec, PeerSpec};
use psmc_toml::rate_text;

/// Adds a peer at the end of a file. Returns whether that can be done: not where peers are written as a list in brackets.
pub(super) fn add_peer(document: &mut DocumentMut, peer: &PeerSpec) -> bool {
    let mut table = section();
    table["name"] = value(&peer.name);
    table["public_key"] = value(&peer.public_key);
    table["allowed_ips"] = list(&peer.allowed_ips);
    if let Some(endpoint) = &peer.endpoint {
        table["endpoint"] = value(endpoint);
    }
    push(document.as_table_mut(), "peer", table)
}

/// Where a file has the peer of this name.
pub(super) fn find_peer<'a>(document: &'a mut DocumentMut, name: &str) -> Option<&'a mut Table> {
    let peers = document.get_mut("peer")?.as_array_of_tables_mut()?;
    peers.iter_mut().find(|peer| peer.get("name").and_then(Item::as_str) == Some(name))
}

/// Adds a path behind the others of a peer. Returns whether that can be done: not where paths are written as a list in brackets.
pub(super) fn add_path(peer: &mut Table, path: &PathSpec) -> bool {
    let mut table = section();
    table["name"] = value(&path.name);
    let mut set = |key: &str, text: Option<String>| {
        if let Some(text) = text {
            table[key] = value(text);
        }
    };
    set("interface", path.interface.clone());
    set("address", path.address.as_ref().map(IpAddr::to_string));
    set("endpoint", path.endpoint.clone());
    set("max_rate", path.max_rate_bits_per_second.map(rate_text));
    set("congestion", path.congestion.clone());
    if !path.relays.is_empty() {
        table["relays"] = list(&path.relays);
    }
    for (key, number) in [("weight", path.weight), ("mtu", path.mtu)] {
        if let Some(number) = number {
            table[key] = value(i64::from(number));
        }
    }
    push(peer, "path", table)
}

/// A section with an empty line above.
fn section() -> Table {
    let mut table = Table::new();
    table.decor_mut().set_prefix("\n");
    table
}

fn list(texts: &[String]) -> Item {
    Item::Value(Value::Array(texts.iter().collect::<Array>()))
}

fn push(parent: &mut Table, key: &str, table: Table) -> bool {
    let sections = parent.entry(key).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    let Some(sections) = sections.as_array_of_tables_mut() else { return false };
    sections.push(table);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# The van.\n[site]\nname = \"van\"   # ours\n\n[[peer]]\nname = 'hq'\n\n  # By cable.\n  \
        [[peer.path]]\n  name = \"dsl\" # slow\n\n# Another.\n[[peer]]\nname = \"depot\"\n# The end.\n";

    fn document() -> DocumentMut {
        FILE.parse().unwrap()
    }

    #[test]
    fn nothing_else_changes() {
        assert_eq!(document().to_string(), FILE);
        let mut document = document();
        let path = PathSpec {
            name: "lte".to_owned(),
            interface: Some("wwan0".to_owned()),
            weight: Some(3),
            max_rate_bits_per_second: Some(20_000_000),
            relays: vec!["fra1".to_owned()],
            ..PathSpec::default()
        };
        assert!(add_path(find_peer(&mut document, "hq").unwrap(), &path));
        assert!(find_peer(&mut document, "nobody").is_none());
        let peer = PeerSpec {
            name: "bus".to_owned(),
            public_key: "KEY".to_owned(),
            allowed_ips: vec!["10.9.0.0/24".to_owned(), "fd09::/64".to_owned()],
            endpoint: None,
        };
        assert!(add_peer(&mut document, &peer));
        let added = "\n[[peer.path]]\nname = \"lte\"\ninterface = \"wwan0\"\nmax_rate = \"20mbit\"\n\
            relays = [\"fra1\"]\nweight = 3\n";
        let at = FILE.find("\n# Another.").unwrap();
        let expected = format!("{}{added}{}", &FILE[..at], &FILE[at..]);
        let (before, end) = expected.split_at(expected.find("# The end.").unwrap());
        let peer = "\n[[peer]]\nname = \"bus\"\npublic_key = \"KEY\"\nallowed_ips = [\"10.9.0.0/24\", \"fd09::/64\"]\n";
        assert_eq!(document.to_string(), format!("{before}{peer}{end}"));
    }

    #[test]
    fn what_is_written_in_brackets_is_left_alone() {
        let mut document: DocumentMut = "peer = [{ name = \"hq\" }]\n".parse().unwrap();
        assert!(find_peer(&mut document, "hq").is_none());
        let peer =
            PeerSpec { name: "b".into(), public_key: "K".into(), allowed_ips: Vec::new(), endpoint: None };
        assert!(!add_peer(&mut document, &peer));
    }
}
