//! `psmc check` on files that are wrong and files that are right, each beside what it prints.
//!
//! The files are copied to a directory of their own first, and made private, as files with keys in them must be.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A directory for files to be checked, removed on drop.
struct Desk(TempDir);

/// What the tool did.
struct Verdict {
    exit_code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn put(&self, name: &str, text: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    fn check(&self, name: &str) -> Verdict {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_psmc"));
        let output = tool.args(["check", name]).current_dir(self.0.path()).output().unwrap();
        Verdict {
            exit_code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The complaints about a file that must be refused.
    fn complaints(&self, name: &str) -> String {
        let verdict = self.check(name);
        assert_eq!((verdict.exit_code, verdict.stdout.as_str()), (Some(1), ""), "{name}\n{}", verdict.stderr);
        assert!(!verdict.stderr.contains(PRIVATE_KEY), "{name} shows the private key:\n{}", verdict.stderr);
        verdict.stderr
    }
}

/// The private key in the files.
const PRIVATE_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn fixtures(kind: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check").join(kind);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    files.iter().map(|path| (name(path), fs::read(path).unwrap())).collect()
}

fn assert_snapshot(folder: &str, name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(format!("../check/{folder}"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name.trim_end_matches(".toml"), text));
}

#[test]
fn wrong_files() {
    let files = fixtures("wrong");
    let files = files.iter().filter(|(name, _)| name.ends_with(".toml")).collect::<Vec<_>>();
    assert!(files.len() >= 30);
    for (name, text) in files {
        let desk = Desk::new();
        desk.put(name, text, 0o600);
        assert_snapshot("wrong", name, &desk.complaints(name));
    }
}

#[test]
fn right_files() {
    for (name, text) in fixtures("good").iter().filter(|(name, _)| name.ends_with(".toml")) {
        let desk = Desk::new();
        desk.put(name, text, 0o600);
        let verdict = desk.check(name);
        assert_eq!((verdict.exit_code, verdict.stderr.as_str()), (Some(0), ""), "{name}");
        // What else it says is about the machine that runs the test.
        let (meaning, _) = verdict.stdout.split_once("\non this machine\n").unwrap_or((&verdict.stdout, ""));
        assert_snapshot("good", name, meaning);
    }
}

#[test]
fn files_that_are_no_configuration() {
    let desk = Desk::new();
    desk.put("empty.toml", "", 0o600);
    desk.put("latin1.toml", b"[site]\nname = \"caf\xe9\"\n", 0o600);
    desk.put("large.toml", vec![b'#'; (16 << 20) + 1], 0o600);
    fs::create_dir(desk.0.path().join("folder.toml")).unwrap();
    for name in ["absent.toml", "empty.toml", "folder.toml", "large.toml", "latin1.toml"] {
        assert_snapshot("file", name, &desk.complaints(name));
    }
}

#[test]
fn files_that_others_can_read() {
    let minimal = String::from_utf8(fixture("good", "minimal.toml")).unwrap();
    let desk = Desk::new();
    desk.put("readable.toml", &minimal, 0o644);
    assert_snapshot("file", "readable.toml", &desk.complaints("readable.toml"));

    desk.put("van.key", PRIVATE_KEY, 0o640);
    let by_file =
        minimal.replace(&format!("private_key = \"{PRIVATE_KEY}\""), "private_key_file = \"van.key\"");
    desk.put("readable_key.toml", &by_file, 0o644);
    assert_snapshot("file", "readable_key.toml", &desk.complaints("readable_key.toml"));

    desk.put("van.key", PRIVATE_KEY, 0o600);
    assert_eq!(desk.check("readable_key.toml").exit_code, Some(0));
}

#[test]
fn key_files_that_hold_no_key() {
    let minimal = String::from_utf8(fixture("good", "minimal.toml")).unwrap();
    let desk = Desk::new();
    let by_file =
        minimal.replace(&format!("private_key = \"{PRIVATE_KEY}\""), "private_key_file = \"van.key\"");
    desk.put("empty_key.toml", &by_file, 0o644);
    desk.put("van.key", "", 0o600);
    assert_snapshot("file", "empty_key.toml", &desk.complaints("empty_key.toml"));

    desk.put("spoilt_key.toml", &by_file, 0o644);
    desk.put("van.key", &PRIVATE_KEY[1..], 0o600);
    let complaints = desk.complaints("spoilt_key.toml");
    assert!(!complaints.contains(&PRIVATE_KEY[1..]));
    assert_snapshot("file", "spoilt_key.toml", &complaints);
}

#[test]
fn token_files_that_hold_no_secret() {
    let minimal = String::from_utf8(fixture("good", "minimal.toml")).unwrap();
    let desk = Desk::new();
    let web = "[web]\nlisten = \"10.77.0.2:9116\"\ntoken_file = \"van.token\"\n";
    desk.put("token.toml", format!("{minimal}\n{web}"), 0o600);
    desk.put("van.token", "0123456789abcdef\n", 0o644);
    assert_snapshot("file", "readable_token.toml", &desk.complaints("token.toml"));
    desk.put("van.token", "0123 456789abcdef", 0o640);
    assert_snapshot("file", "spoilt_token.toml", &desk.complaints("token.toml"));
    desk.put("van.token", "0123456789abcdef\n", 0o640);
    let verdict = desk.check("token.toml");
    assert!(
        verdict.stdout.contains("web page     at http://10.77.0.2:9116/, with a token"),
        "{}",
        verdict.stdout
    );
    desk.put("token.toml", format!("{minimal}\n{web}orders = true\n"), 0o600);
    let verdict = desk.check("token.toml");
    let meaning = "web page     at http://10.77.0.2:9116/, with a token, which may change paths";
    assert!(verdict.stdout.contains(meaning), "{}", verdict.stdout);
}

/// Editors of another system put it there; it is no mistake.
#[test]
fn a_byte_order_mark_and_foreign_line_ends_do_no_harm() {
    let minimal = String::from_utf8(fixture("good", "minimal.toml")).unwrap();
    let desk = Desk::new();
    desk.put("bom.toml", format!("\u{feff}{}", minimal.replace('\n', "\r\n")), 0o600);
    assert_eq!(desk.check("bom.toml").exit_code, Some(0));
}

/// The tool names the keys of a section when it meets one that it does not know.
#[test]
fn every_key_is_documented() {
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CONFIGURATION.md");
    let reference = fs::read_to_string(reference).unwrap();
    let desk = Desk::new();
    desk.put("keys.toml", "[site]\n0x = 1\n[[peer]]\n0x = 1\n[[peer.path]]\n0x = 1\n", 0o600);
    let complaints = desk.complaints("keys.toml");
    let lists = complaints.lines().filter_map(|line| line.split_once("the keys here are "));
    let keys: Vec<_> = lists.flat_map(|(_, keys)| keys.split(", ")).collect();
    assert!(keys.contains(&"listen") && keys.contains(&"allowed_ips") && keys.contains(&"congestion"));
    for key in keys {
        let documented = [format!("`{key}`"), format!("`[[peer.{key}]]`")];
        assert!(documented.iter().any(|text| reference.contains(text)), "{key} is not in the reference");
    }
}

fn fixture(kind: &str, name: &str) -> Vec<u8> {
    let files = fixtures(kind);
    files.into_iter().find(|(file, _)| file == name).unwrap().1
}
