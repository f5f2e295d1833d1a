//! `psmc dns reroute` with the real BIND, in a namespace. Needs root, and the Debian package bind9.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use psmc_net::keys::PrivateKey;
use psmc_testbed::netns::Namespace;
use serde_json::Value;

/// How long BIND may take to come up on a busy machine.
const STARTUP: Duration = Duration::from_secs(60);

const KEY: &str =
    "key up { algorithm hmac-sha256; secret \"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\"; };\n";

const ZONE: &str = "$TTL 60\n@ IN SOA ns1 hostmaster 1 3600 600 86400 60\n@ IN NS ns1\nns1 IN A 127.0.0.1\n";

fn write(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

/// BIND on 127.0.0.1, which ends with the namespace.
fn bind(namespace: &Namespace, directory: &Path) -> Child {
    write(directory, "zone", ZONE);
    let config = format!(
        "options {{ directory \"{}\"; pid-file none; lock-file none; session-keyfile none; recursion no;\n\
         listen-on port 53 {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; dnssec-validation no; }};\ncontrols {{ }};\n\
         {KEY}zone \"example.com\" {{ type primary; file \"zone\"; allow-update {{ key up; }}; }};\n",
        directory.display()
    );
    write(directory, "named.conf", &config);
    let mut command = Command::new("/usr/sbin/named");
    let log = fs::File::create(directory.join("log")).unwrap();
    command.current_dir(directory).args(["-g", "-n", "1", "-c", "named.conf"]).stderr(log);
    namespace.spawn(&mut command).expect("the Debian package bind9 is installed")
}

/// Runs `psmc dns reroute` with `words`, and the files of `directory`.
fn reroute(namespace: &Namespace, directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_psmc"));
    command.current_dir(directory).args(["dns", "reroute"]).args(words);
    namespace.run(|| command.output()).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn routes_are_published_refreshed_and_withdrawn() {
    let namespace = Namespace::new().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut named = bind(&namespace, directory);
    write(directory, "up.key", KEY);
    write(directory, "www.key", &PrivateKey::from_seed([1; 32]).to_base64());
    let relay = format!("192.0.2.7:5115={}", PrivateKey::from_seed([7; 32]).public());
    let common = ["www.example.com", "--server", "127.0.0.1", "--tsig-key", "up.key"];
    let publish = [&["publish"], &common[..], &["--service-key", "www.key", "--relay", &relay]].concat();

    // The first one also waits for BIND to come up.
    let deadline = Instant::now() + STARTUP;
    let dry = loop {
        let dry = reroute(&namespace, directory, &[&publish[..], &["--dry-run"]].concat());
        if dry.status.success() {
            break text(&dry.stdout);
        }
        let log = || fs::read_to_string(directory.join("log")).unwrap();
        assert!(Instant::now() < deadline, "{}{}", text(&dry.stderr), log());
    };
    assert!(dry.starts_with("server 127.0.0.1 53\nzone example.com.\n"), "{dry}");
    assert!(dry.contains("update add www.example.com. 10 TYPE65400 \\# "), "{dry}");

    let refresh = [&["refresh"], &common[..], &["--service-key", "www.key", "--json"]].concat();
    let nothing = reroute(&namespace, directory, &refresh);
    assert!(text(&nothing.stderr).contains("publish some"), "{nothing:?}");

    let serial = |words: &[&str]| {
        let output = reroute(&namespace, directory, words);
        assert!(output.status.success(), "{output:?}");
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["servers"][0]["ok"], Value::Bool(true), "{json}");
        json["serial"].as_u64().unwrap()
    };
    let first = serial(&[&publish[..], &["--svcb", "--json"]].concat());
    assert!(serial(&refresh) > first);

    let withdraw = [&["withdraw"], &common[..]].concat();
    let output = reroute(&namespace, directory, &withdraw);
    assert!(text(&output.stdout).starts_with("127.0.0.1:53: changed in "), "{output:?}");
    assert!(!reroute(&namespace, directory, &refresh).status.success());

    let nobody = [&withdraw[..], &["--server", "127.0.0.9", "--attempts", "1"]].concat();
    let output = reroute(&namespace, directory, &nobody);
    assert!(text(&output.stderr).contains("1 of 2 servers were not updated"), "{output:?}");
    named.kill().unwrap();
    named.wait().unwrap();
}
