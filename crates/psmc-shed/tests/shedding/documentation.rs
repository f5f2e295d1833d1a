//! The examples in `docs/SHEDDING.md`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use psmc_net::keys::PrivateKey;
use psmc_shed::config::Config;

#[test]
fn examples_are_files_that_the_agent_takes() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/SHEDDING.md");
    let page = fs::read_to_string(page).unwrap();
    let directory = tempfile::tempdir().unwrap();
    for name in ["hq.key", "edge1.key"] {
        let file = directory.path().join(name);
        fs::write(&file, PrivateKey::generate().to_base64().as_bytes()).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    }
    let key = PrivateKey::from_seed([7; 32]).public().to_string();
    let upstream = "[[upstream]]\nname = \"transit\"\nkind = \"gobgp\"\n";
    let mut examples = 0;
    for part in page.split("```toml\n").skip(1) {
        let example = part.split("```").next().unwrap().replace('…', &key);
        // Pieces leave out what a file above them has.
        let text = if example.contains("[shed]") {
            example.clone()
        } else {
            format!("[shed]\nname = \"hq\"\nprivate_key_file = \"hq.key\"\n{example}{upstream}")
        };
        let read = Config::parse(&text, &directory.path().join("hq.toml"));
        assert!(read.is_ok(), "{:?}\n{text}", read.err());
        examples += 1;
    }
    assert!(examples >= 5, "{examples}");
}
