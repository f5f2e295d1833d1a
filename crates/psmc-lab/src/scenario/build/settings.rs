//! Whether `psmcd` takes what the file says of a tunnel: it is asked.

use std::ops::Range;
use std::path::Path;

use psmc_net::keys::PrivateKey;
use psmc_toml::Complaint;
use psmcd::config::Config;

use crate::scenario::draft::{SettingDraft, TunnelDraft};
use crate::scenario::model::{Host, Link, Tunnel, TunnelId};
use crate::site::{Text, port};

/// What the lab puts into the configurations itself.
const OURS: [&str; 7] =
    ["name", "private_key", "private_key_file", "addresses", "listen", "interface", "control_socket"];

/// Complains about everything that `psmcd` would complain of, at the places of this file.
pub(super) fn check(
    draft: &TunnelDraft,
    id: TunnelId,
    tunnel: &Tunnel,
    hosts: &[Host],
    links: &[Link],
    out: &mut Vec<Complaint>,
) {
    if set_what_is_ours(draft, out) {
        return;
    }
    for end in [0, 1] {
        let names = [0, 1].map(|end| hosts[tunnel.ends[end].host.0].name.as_str());
        let links: Vec<&str> = tunnel.paths.iter().map(|path| links[path.link.0].name.as_str()).collect();
        let text = Text { tunnel, end, names, links: &links, port: port(id) };
        let (own, peer) = (PrivateKey::generate(), PrivateKey::generate().public());
        let text = text.write(&own, &peer, Path::new("/run/psmc/lab.sock"));
        let Err(error) = Config::parse(&text, Path::new("site.toml")) else { continue };
        out.extend(error.complaints().iter().map(|complaint| translated(complaint, &text, draft)));
        // The other end would say the same again.
        return;
    }
}

fn set_what_is_ours(draft: &TunnelDraft, out: &mut Vec<Complaint>) -> bool {
    let ours = |setting: &&SettingDraft| OURS.contains(&setting.key.get_ref().as_str());
    let mut found = false;
    for setting in draft.settings.iter().filter(ours) {
        let reason = format!("the lab sets `{}` of psmcd itself", setting.key.get_ref());
        out.push(Complaint::new(reason, "remove it").at(setting.key.span()));
        found = true;
    }
    found
}

/// A complaint about the configuration as one about the scenario.
fn translated(complaint: &Complaint, text: &str, draft: &TunnelDraft) -> Complaint {
    let place = complaint.span().and_then(|span| place(&span, text, draft));
    let words = |text: &str| text.replace("[site]", "`settings`").replace("[[peer.path]]", "[[tunnel.path]]");
    match place {
        Some(place) => Complaint::new(words(complaint.reason()), words(complaint.remedy())).at(place),
        None => {
            let reason = format!("psmcd would not take this tunnel: {}", complaint.reason());
            Complaint::new(reason, complaint.remedy()).at(draft.place.clone())
        }
    }
}

/// Where the scenario has the setting that stands at `span` in the configuration.
fn place(span: &Range<usize>, text: &str, draft: &TunnelDraft) -> Option<Range<usize>> {
    let before = text.get(..span.start)?;
    let line = before.rfind('\n').map_or(0, |end| end + 1);
    let key = text[line..].split('=').next()?.trim().trim_matches('"');
    let settings = match before.matches("[[peer.path]]").count() {
        0 => &draft.settings,
        number => &draft.paths.get(number - 1)?.settings,
    };
    let setting = settings.iter().find(|setting| setting.key.get_ref() == key)?;
    Some(if span.start == line { setting.key.span() } else { setting.value.span() })
}
