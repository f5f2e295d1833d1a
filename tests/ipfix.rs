//! What is said of flow records elsewhere: `docs/IPFIX.md`.
//!
//! Its tables are made of the templates of psmcd: `UPDATE_IPFIX=1 cargo test --test ipfix` writes them anew.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use psmcd::daemon::ipfix::elements::{
    FLOW_V4, FLOW_V6, OTHERS, PATH, SEGMENT, SHARE, TARGET, Template, VARIABLE,
};

#[test]
fn the_documentation_has_all_templates() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/IPFIX.md");
    let stored = fs::read_to_string(&path).expect("docs/IPFIX.md is here");
    let (text, _) = stored.split_once(MARK).expect("docs/IPFIX.md has the mark");
    let text = format!("{text}{MARK}{}", tables());
    if std::env::var_os("UPDATE_IPFIX").is_some() {
        fs::write(&path, &text).expect("docs/IPFIX.md is writable");
        return;
    }
    assert_eq!(stored, text, "docs/IPFIX.md is out of date: see the top of tests/ipfix.rs");
}

/// All above it is written by hand.
const MARK: &str = "<!-- Made by tests/ipfix.rs: UPDATE_IPFIX=1 cargo test --test ipfix -->\n";

fn tables() -> String {
    let of_flows = [table(&FLOW_V4), table(&FLOW_V6), table(&OTHERS)];
    let of_others = [table(&PATH), table(&SHARE), table(&SEGMENT), table(&TARGET)];
    of_flows.concat() + &of_others.concat()
}

fn table<R>(template: &Template<R>) -> String {
    let kind = if template.scopes > 0 { "options template" } else { "template" };
    let mut text = format!(
        "\n### {}: {} ({kind})\n\n| element | number | bytes | meaning |\n|---|---|---|---|\n",
        template.id, template.about
    );
    for (at, field) in (0..).zip(template.fields()) {
        let number =
            if field.is_own { format!("enterprise, {}", field.number) } else { field.number.to_string() };
        let bytes = if field.length == VARIABLE { "variable".to_owned() } else { field.length.to_string() };
        let scope = if at < template.scopes { ", scope" } else { "" };
        // Writing to a string does not fail.
        let _ = writeln!(text, "| `{}` | {number}{scope} | {bytes} | {} |", field.name, field.meaning);
    }
    text
}
