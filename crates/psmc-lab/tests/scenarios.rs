//! The examples in `scenarios/`, as they are checked before they run.

use std::fs;
use std::path::Path;

use psmc_lab::scenario::Scenario;

#[test]
fn every_example_is_right() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut count = 0;
    for path in files.filter(|path| path.extension().is_some_and(|extension| extension == "toml")) {
        let scenario = Scenario::load(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(path.file_stem().unwrap().to_str().unwrap(), scenario.name);
        count += 1;
    }
    assert!(count > 0);
}
