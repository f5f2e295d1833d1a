//! The paths that classes prefer: there are such, and what is said of them makes sense.

use std::collections::BTreeSet;

use psmc_toml::{Complaint, Name};
use toml::Spanned;

use crate::config::draft::{ClassDraft, Draft};

pub(super) fn check(draft: &Draft, out: &mut Vec<Complaint>) {
    let known = known(draft);
    for class in &draft.classes {
        for path in class.paths.iter().chain(&class.avoid) {
            exists(path, known.as_ref(), out);
        }
        agrees(class, out);
    }
}

/// The names of all paths, if this file has them: those over every uplink, and those of peers that dial, are known later.
fn known(draft: &Draft) -> Option<BTreeSet<&str>> {
    let lists = !draft.peers.is_empty() && draft.peers.iter().all(|peer| !peer.paths.is_empty());
    let paths = draft.peers.iter().flat_map(|peer| &peer.paths);
    lists.then(|| paths.filter_map(|path| Some(path.name.as_ref()?.get_ref().as_str())).collect())
}

fn exists(path: &Spanned<Name>, known: Option<&BTreeSet<&str>>, out: &mut Vec<Complaint>) {
    let Some(known) = known.filter(|known| !known.contains(path.get_ref().as_str())) else { return };
    let names = known.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let reason = format!("no path is called \"{}\"", path.get_ref());
    out.push(Complaint::new(reason, format!("name one that there is: {names}")).at(path.span()));
}

fn agrees(class: &ClassDraft, out: &mut Vec<Complaint>) {
    for path in &class.avoid {
        let named = class.paths.iter().find(|other| other.get_ref() == path.get_ref());
        if let Some(named) = named {
            let reason = format!("the class both prefers and avoids \"{}\"", path.get_ref());
            let complaint = Complaint::new(reason, "name the path in one of the two lists");
            out.push(complaint.at(path.span()).because_of(named.span(), "preferred here"));
        }
    }
    if let Some(place) = &class.strict_about_nothing {
        let remedy = r#"add paths = ["dsl"] or avoid = ["lte"], or remove `strict`"#;
        let reason = "a class that prefers no paths has nothing to be strict about";
        out.push(Complaint::new(reason, remedy).at(place.clone()));
    }
}
