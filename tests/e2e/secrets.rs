//! Where private keys are in the memory of the daemons that have some.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use psmc_net::keys::PrivateKey;
use psmc_testbed::netns::Namespace;
use psmc_testbed::poll::wait_for;
use psmc_testbed::programs::program;

/// Until a daemon answers.
const PATIENCE: Duration = Duration::from_secs(30);

/// How much is read at once: what is searched for is looked for across the borders.
const CHUNK: usize = 1 << 20;

/// A daemon that is ended with the test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A mapping of a process (`smaps` of proc(5)).
struct Mapping {
    from: u64,
    to: u64,
    name: String,
    flags: Vec<String>,
}

fn mappings(process: u32) -> Vec<Mapping> {
    let mut all = Vec::new();
    for line in fs::read_to_string(format!("/proc/{process}/smaps")).unwrap().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words[0] == "VmFlags:" {
            let last: &mut Mapping = all.last_mut().unwrap();
            last.flags = words[1..].iter().map(ToString::to_string).collect();
        } else if !words[0].ends_with(':') {
            let (from, to) = words[0].split_once('-').unwrap();
            let [from, to] = [from, to].map(|address| u64::from_str_radix(address, 16).unwrap());
            let name = words.get(5).copied().unwrap_or_default().to_owned();
            all.push(Mapping { from, to, name, flags: Vec::new() });
        }
    }
    all
}

/// The mappings in which `bytes` are, once for each place.
fn places(process: u32, bytes: &[u8]) -> Vec<Mapping> {
    let memory = File::open(format!("/proc/{process}/mem")).unwrap();
    let mut found = Vec::new();
    for mapping in
        mappings(process).into_iter().filter(|mapping| mapping.flags.iter().any(|flag| flag == "rd"))
    {
        let (mut count, mut at) = (0, mapping.from);
        while at < mapping.to {
            let most = CHUNK.min(usize::try_from(mapping.to - at).unwrap());
            let mut chunk = vec![0; most];
            // Some of the kernel's own cannot be read.
            let Ok(read @ 1..) = memory.read_at(&mut chunk, at) else { break };
            count += chunk[..read].windows(bytes.len()).filter(|window| *window == bytes).count();
            // What begins in this chunk and ends in the next one is found there.
            let step = if read < CHUNK { read } else { read - (bytes.len() - 1) };
            at += step as u64;
        }
        for _ in 0..count {
            found.push(Mapping { flags: mapping.flags.clone(), name: mapping.name.clone(), ..mapping });
        }
    }
    found
}

fn write_secret(path: &Path, text: &str) {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).unwrap();
}

/// Starts a daemon with a key of its own in a file, and looks for that everywhere.
fn keeps_its_key(name: &str, settings: &str) {
    let host = Namespace::new().expect("this test needs root, for it makes network namespaces");
    host.set_link("lo", true).unwrap();
    let directory = tempfile::Builder::new().prefix("psmc-e2e-secrets-").tempdir().unwrap();
    let path = |file: &str| directory.path().join(file);
    let key = PrivateKey::generate();
    write_secret(&path("key"), &format!("{}\n", *key.to_base64()));
    // What else a file has to name has a key of its own.
    let other = PrivateKey::generate();
    write_secret(&path("other"), &other.to_base64());
    let settings = settings.replace("{other}", &other.public().to_string());
    let settings = settings.replace("{key}", &format!("private_key_file = '{}'", path("key").display()));
    let own = format!(
        "control_socket = '{}'\nstate_file = '{}'\n",
        path("socket").display(),
        path("state").display()
    );
    let own = if settings.contains("{state}") { own } else { own.lines().next().unwrap().to_owned() };
    let store = format!("store = 'sqlite:{}'", path("store.db").display());
    let settings = settings.replace("{state}", "").replace("{own}", &own).replace("{store}", &store);
    write_secret(&path("daemon.toml"), &settings);
    let mut command = Command::new(program(name));
    command.arg("--config").arg(path("daemon.toml")).stdout(Stdio::null());
    let daemon = Daemon(host.run(|| command.spawn()).unwrap());
    let process = daemon.0.id();
    wait_for("its control socket", PATIENCE, || path("socket").exists().then_some(()));

    // Only root may look (PR_SET_DUMPABLE of prctl(2)), which this test does.
    assert_eq!(fs::metadata(format!("/proc/{process}/mem")).unwrap().uid(), 0);
    let found = places(process, key.seed());
    let names: Vec<String> = found.iter().map(|place| format!("{:x} {}", place.from, place.name)).collect();
    assert_eq!(found.len(), 1, "{name}: {names:?}");
    let Mapping { from, to, name: file, flags } = &found[0];
    // A page for keys, beside which there may be others: locked, in no dump, in no child.
    assert!(to - from <= 2 * 4096 && file.is_empty(), "{name}: {from:x}-{to:x} {file}");
    for flag in ["lo", "dd", "dc"] {
        assert!(flags.iter().any(|has| has == flag), "{name}: {flag} is not among {flags:?}");
    }
    assert!(places(process, key.to_base64().as_bytes()).is_empty(), "{name} has the text of its file");
    // The search finds what is there.
    assert!(!places(process, path("daemon.toml").as_os_str().as_encoded_bytes()).is_empty());
}

#[test]
fn psmcd_has_its_key_in_one_place() {
    let peer = "[[peer]]\nname = \"van\"\npublic_key = \"{other}\"\nallowed_ips = [\"10.77.0.2/32\"]\n";
    keeps_its_key(
        "psmcd",
        &format!("[site]\nname = \"hq\"\n{{key}}\naddresses = [\"10.77.0.1/24\"]\n{{own}}{{state}}{peer}"),
    );
}

#[test]
fn a_relay_has_its_key_in_one_place() {
    keeps_its_key(
        "psmc-relay",
        "[relay]\nname = \"fra1\"\n{key}\ndestinations = [\"127.0.0.0/8\"]\n{own}\n\
         [[allow]]\nname = \"van\"\npublic_key = \"{other}\"\n",
    );
}

#[test]
fn a_coordinator_has_its_key_in_one_place() {
    keeps_its_key(
        "psmc-coordinator",
        "[coordinator]\nname = \"co1\"\n{key}\n{store}\n{own}\n\
         [[relay]]\nname = \"r1\"\naddress = \"127.0.0.1:9\"\npublic_key = \"{other}\"\n\
         [[service]]\nname = \"www.example.com\"\nkey_file = \"other\"\n",
    );
}

#[test]
fn a_guard_has_its_key_in_one_place() {
    keeps_its_key(
        "psmc-guard",
        "[guard]\nname = \"hq\"\n{key}\ninterfaces = [\"lo\"]\n{own}{state}\
         [[service]]\nname = \"www.example.com\"\ntargets = [\"127.0.0.9\"]\n",
    );
}

#[test]
fn an_agent_that_sheds_has_its_key_in_one_place() {
    keeps_its_key(
        "psmc-shed",
        "[shed]\nname = \"edge1\"\n{key}\n{own}{state}[router]\n\
         [[server]]\nname = \"hq\"\npublic_key = \"{other}\"\nprefixes = [\"203.0.113.0/24\"]\n",
    );
}
