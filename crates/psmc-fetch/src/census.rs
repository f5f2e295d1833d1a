//! Which version of the file is fetched, if mirrors have several.

use super::http::{Proof, Version};

/// The version that most mirrors have: the first of those that agree with it. `Err` if two are equally frequent.
pub(super) fn choose<'a>(versions: &[&'a Version], proof: Proof) -> Result<Option<&'a Version>, ()> {
    let votes = |version: &Version| versions.iter().filter(|other| proof.agree(version, other)).count();
    let Some(most) = versions.iter().map(|version| votes(version)).max() else { return Ok(None) };
    let mut winners = versions.iter().filter(|version| votes(version) == most);
    let Some(first) = winners.next() else { return Ok(None) };
    if winners.all(|other| proof.agree(first, other)) { Ok(Some(first)) } else { Err(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(length: u64, modified: Option<&str>) -> Version {
        Version { length, modified: modified.map(str::to_owned), etag: None }
    }

    #[test]
    fn most_mirrors_are_right() {
        let (old, new) = (version(1, Some("old")), version(2, Some("new")));
        let choose = |versions: &[&Version]| choose(versions, Proof::Words).map(Option::<&Version>::cloned);
        assert_eq!(choose(&[&old, &new, &new]), Ok(Some(new.clone())));
        assert_eq!(choose(&[&old, &new]), Err(()));
        assert_eq!(choose(&[&old]), Ok(Some(old.clone())));
        assert_eq!(choose(&[]), Ok(None));
    }

    #[test]
    fn a_known_hash_makes_times_unimportant() {
        let (old, new) = (version(1, Some("old")), version(1, Some("new")));
        assert_eq!(choose(&[&old, &new], Proof::Words), Err(()));
        assert_eq!(choose(&[&old, &new], Proof::Hash), Ok(Some(&old)));
    }
}
