//! Which version of the file is fetched, if mirrors have several.

use super::http::Version;

/// The version that most mirrors have: the first of those that agree with it. `Err` if two are equally frequent.
///
/// `same` says whether two mirrors have the same file.
pub(super) fn choose<'a>(
    versions: &[&'a Version],
    same: fn(&Version, &Version) -> bool,
) -> Result<Option<&'a Version>, ()> {
    let votes = |version: &Version| versions.iter().filter(|other| same(version, other)).count();
    let Some(most) = versions.iter().map(|version| votes(version)).max() else { return Ok(None) };
    let mut winners = versions.iter().filter(|version| votes(version) == most);
    let Some(first) = winners.next() else { return Ok(None) };
    if winners.all(|other| same(first, other)) { Ok(Some(first)) } else { Err(()) }
}

/// Whether two mirrors have the same file, if its hash is known and shows in the end whether they do: servers that got the
/// file at different times have it with different times.
pub(super) fn is_as_long(one: &Version, other: &Version) -> bool {
    one.length == other.length
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
        let choose =
            |versions: &[&Version]| choose(versions, Version::agrees).map(Option::<&Version>::cloned);
        assert_eq!(choose(&[&old, &new, &new]), Ok(Some(new.clone())));
        assert_eq!(choose(&[&old, &new]), Err(()));
        assert_eq!(choose(&[&old]), Ok(Some(old.clone())));
        assert_eq!(choose(&[]), Ok(None));
    }

    #[test]
    fn a_known_hash_makes_times_unimportant() {
        let (old, new) = (version(1, Some("old")), version(1, Some("new")));
        assert_eq!(choose(&[&old, &new], Version::agrees), Err(()));
        assert_eq!(choose(&[&old, &new], is_as_long), Ok(Some(&old)));
    }
}
