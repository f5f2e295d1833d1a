//! Classes say which packets are theirs, and there are not too many.

use psmc_core::MAX_CLASSES;
use psmc_toml::Complaint;

use super::names::unique_names;
use crate::config::draft::{ClassDraft, Draft};

/// The class of what belongs to no other.
const BEST_EFFORT: &str = "best-effort";

/// The classes that there are without configuration.
const BUILT_IN: [&str; 3] = ["voice", "background", BEST_EFFORT];

pub(super) fn check(draft: &Draft, out: &mut Vec<Complaint>) {
    unique_names("classes", draft.classes.iter().filter_map(|class| class.name.as_ref()), out);
    draft.classes.iter().for_each(|class| takes_some(class, out));
    let most = MAX_CLASSES - BUILT_IN.len();
    let added = draft.classes.iter().filter(|class| !BUILT_IN.contains(&name_of(class)));
    if let Some(surplus) = added.clone().nth(most) {
        let reason = format!("there are {} classes, and {most} are the most", added.count());
        let remedy = "put packets that are treated alike into one class";
        out.push(Complaint::new(reason, remedy).at(surplus.place.clone()));
    }
}

/// Complains about a class that takes every packet, or about best effort if it does not.
fn takes_some(class: &ClassDraft, out: &mut Vec<Complaint>) {
    match (name_of(class), &class.matches) {
        (BEST_EFFORT, Some(place)) => {
            let reason = "best effort is what belongs to no other class";
            let remedy = "remove what this class should match, or give it another name";
            out.push(Complaint::new(reason, remedy).at(place.clone()));
        }
        (name, None) if !BUILT_IN.contains(&name) => {
            let remedy = r#"say which packets are its own: dscp = ["EF"], protocol = ["udp"], ports = [5060], from or to = ["192.168.10.0/24"]"#;
            out.push(Complaint::new("this class would take every packet", remedy).at(class.place.clone()));
        }
        (_, _) => {}
    }
}

fn name_of(class: &ClassDraft) -> &str {
    class.name.as_ref().map_or("", |name| name.get_ref().as_str())
}
