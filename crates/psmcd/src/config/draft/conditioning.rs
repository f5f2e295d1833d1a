//! What a `[[class]]` may send, and how its packets are marked.

use psmc_core::condition::{AssuredClass, Conditioning, Mode, Profile};
use psmc_toml::{Complaint, RATE, Rate, Section};

use crate::config::value::{ASSURED, BURST, CONDITIONER, DEFAULT_BURST};

/// The keys that are of no use without a profile.
const OF_A_PROFILE: [&str; 2] = ["conditioner", "mark"];

/// Reads `profile`, `conditioner` and `mark`.
pub(super) fn read(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Conditioning> {
    let mode = section.optional("conditioner", CONDITIONER, out);
    let mark = section.optional("mark", ASSURED, out).flatten();
    if !section.has("profile") {
        let useless = OF_A_PROFILE.iter().find_map(|key| Some((key, section.key_place(key)?)));
        if let Some((key, place)) = useless {
            let reason =
                format!("`{key}` is of no use without `profile`, which says what the class may send");
            let remedy = r#"add profile = { rate = "5mbit", burst = "64kB" }, or remove the key"#;
            out.push(Complaint::new(reason, remedy).at(place));
        }
        return None;
    }
    let profile = section.section("profile", "the profile of a class", &["rate", "burst"], out)?;
    let burst = profile.optional("burst", BURST, out).unwrap_or(DEFAULT_BURST);
    let rate = profile.required("rate", RATE, "what the class may send", out)?;
    Some(conditioning(rate, burst, mode, mark))
}

fn conditioning(rate: Rate, burst: u64, mode: Option<Mode>, mark: Option<AssuredClass>) -> Conditioning {
    let profile = Profile { rate: rate.bits_per_second(), burst };
    Conditioning { profile, mode: mode.unwrap_or_default(), mark }
}
