//! `psmc-fetch` from servers that do not all behave.

#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its servers has failed")]

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a server that misbehaves in one way is fine in all others"
)]
mod server;

use std::fs;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use psmc_testbed::netns::{Namespace, link_pair};
use serde_json::Value;
use server::{AUTHORITY, Manner, Server};
use tempfile::TempDir;
use tokio::process::Command;

const LENGTH: usize = 3_000_000;

/// After each 8 kB: some megabytes a second.
const SLOWLY: Duration = Duration::from_millis(2);

/// Bytes of which no two stretches are alike.
fn content() -> Vec<u8> {
    let words = (0..LENGTH.div_ceil(4))
        .flat_map(|word| u32::try_from(word).unwrap().wrapping_mul(2_654_435_761).to_be_bytes());
    words.take(LENGTH).collect()
}

fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Where a file goes.
struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("file.bin")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    fn command(&self, urls: &[String], more: &[&str]) -> Command {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_psmc-fetch"));
        tool.args(urls).args(more).arg("--json").current_dir(self.directory.path());
        tool.kill_on_drop(true);
        tool
    }

    async fn fetch(&self, urls: &[String], more: &[&str]) -> (Value, Output) {
        let output = self.command(urls, more).output().await.unwrap();
        let report = serde_json::from_slice(&output.stdout);
        let report = report.unwrap_or_else(|error| panic!("{error}: {output:?}"));
        (report, output)
    }
}

/// Fetches from a server of each manner, and checks what came: the report.
async fn fetched(manners: &[Manner], more: &[&str]) -> (Value, Vec<Server>) {
    let content = content();
    let mut servers = Vec::new();
    for manner in manners {
        servers.push(Server::start(*manner, &content, SLOWLY).await);
    }
    let urls: Vec<_> = servers.iter().map(Server::url).collect();
    let place = Place::new();
    let (report, output) = place.fetch(&urls, more).await;
    assert!(output.status.success(), "{report:#} {output:?}");
    assert!(fs::read(place.file()).unwrap() == content, "the file is not what was served: {report:#}");
    assert_eq!(place.names(), ["file.bin"]);
    let total: u64 =
        report["mirrors"].as_array().unwrap().iter().map(|it| it["bytes"].as_u64().unwrap()).sum();
    assert_eq!((total, report["bytes"].as_u64()), (LENGTH as u64, Some(LENGTH as u64)), "{report:#}");
    (report, servers)
}

fn problem(report: &Value, mirror: usize) -> &str {
    report["mirrors"][mirror]["problem"].as_str().unwrap_or_default()
}

fn bytes(report: &Value, mirror: usize) -> u64 {
    report["mirrors"][mirror]["bytes"].as_u64().unwrap()
}

#[tokio::test]
async fn all_mirrors_give_their_part() {
    let hash = sha256(&content());
    let (report, servers) = fetched(&[Manner::Fine; 3], &["--sha256", &hash]).await;
    assert_eq!(report["sha256_checked"], true);
    for (mirror, server) in servers.iter().enumerate() {
        let share = bytes(&report, mirror);
        // A third each; the rest is chance.
        assert!(share > LENGTH as u64 / 6, "{report:#}");
        // Connections are kept: one for the first question, two for blocks, and those cut short at the end.
        assert!(server.connections() <= 3 + 4, "{} of {}", server.connections(), server.requests());
    }
}

#[tokio::test]
async fn one_mirror_is_enough() {
    fetched(&[Manner::Fine], &[]).await;
    fetched(&[Manner::Fine], &["--connections", "1"]).await;
}

#[tokio::test]
async fn a_mirror_that_stalls_costs_its_share() {
    let (report, _servers) = fetched(&[Manner::StallsAfter(300_000), Manner::Fine], &[]).await;
    assert!(bytes(&report, 0) <= 300_000 + 2 * 8192, "{report:#}");
}

#[tokio::test]
async fn a_mirror_that_is_silent_from_the_start_is_not_waited_for() {
    let (report, _servers) = fetched(&[Manner::StallsAfter(0), Manner::Fine], &[]).await;
    assert_eq!(bytes(&report, 0), 0, "{report:#}");
}

#[tokio::test]
async fn a_mirror_that_breaks_off_is_asked_again() {
    let (report, servers) = fetched(&[Manner::BreaksOffAfter(100_000)], &["--connections", "1"]).await;
    assert!(report["mirrors"][0]["failures"].as_u64() >= Some(2), "{report:#}");
    assert!(servers[0].sent() < LENGTH as u64 * 12 / 10, "what had arrived was asked for again");
}

#[tokio::test]
async fn a_mirror_that_dies_is_replaced() {
    let (report, servers) = fetched(&[Manner::DiesAfter(400_000), Manner::Fine], &[]).await;
    assert!(report["mirrors"][0]["failures"].as_u64() >= Some(1), "{report:#}");
    assert!(servers[0].sent() <= 500_000 && bytes(&report, 1) >= LENGTH as u64 - 500_000);
}

#[tokio::test]
async fn a_mirror_without_ranges_is_asked_only_if_there_is_no_other() {
    let (report, _servers) = fetched(&[Manner::OnlyWhole, Manner::Fine], &[]).await;
    assert_eq!(bytes(&report, 0), 0, "{report:#}");
    let (_, servers) = fetched(&[Manner::OnlyWhole], &[]).await;
    assert!(servers[0].requests() <= 3, "once for the question, and once for all of it");
}

#[tokio::test]
async fn a_mirror_that_forgets_ranges_is_passed_over() {
    let (report, _servers) = fetched(&[Manner::ForgetsRanges, Manner::Fine], &[]).await;
    assert_eq!(bytes(&report, 0), 0, "{report:#}");
    assert!(problem(&report, 0).contains("all of the file instead of a part"), "{report:#}");
    fetched(&[Manner::ForgetsRanges], &[]).await;
}

#[tokio::test]
async fn a_mirror_of_another_version_is_outvoted() {
    for manner in [Manner::OtherVersion, Manner::OtherLength] {
        let (report, _servers) = fetched(&[manner, Manner::Fine, Manner::Fine], &[]).await;
        assert_eq!((bytes(&report, 0), &report["mirrors"][0]["ok"]), (0, &Value::Bool(false)));
        assert!(problem(&report, 0).contains("another version"), "{report:#}");
    }
}

#[tokio::test]
async fn a_mirror_that_lies_is_left_out() {
    let lies = [Manner::LiesAboutLength, Manner::ChangesAfter(4)];
    for manner in lies {
        let (report, _servers) = fetched(&[manner, Manner::Fine], &[]).await;
        assert!(problem(&report, 0).contains("its version of the file changed"), "{report:#}");
        assert_eq!(report["mirrors"][0]["ok"], false);
    }
    let (report, _servers) = fetched(&[Manner::WrongPart, Manner::Fine], &[]).await;
    assert_eq!(bytes(&report, 0), 0);
    assert!(problem(&report, 0).contains("another part of the file"), "{report:#}");
}

#[tokio::test]
async fn what_is_too_much_or_too_little_does_no_harm() {
    fetched(&[Manner::TooMuch, Manner::Fine], &[]).await;
    let (report, _servers) = fetched(&[Manner::AtMost(50_000), Manner::Fine], &[]).await;
    assert!(bytes(&report, 0) > 50_000, "{report:#}");
}

#[tokio::test]
async fn redirects_are_followed_once() {
    let (_, servers) = fetched(&[Manner::Redirects], &[]).await;
    // The question, and where it led; then every block is asked for there, on kept connections.
    assert!(servers[0].connections() <= 4 + 2, "{}", servers[0].connections());
    let (report, _servers) = fetched(&[Manner::Circles, Manner::Missing, Manner::Fine], &[]).await;
    assert!(problem(&report, 0).contains("redirects more than"), "{report:#}");
    assert!(problem(&report, 1).contains("404"), "{report:#}");
}

#[tokio::test]
async fn servers_have_ways_of_their_own() {
    let manners = [
        Manner::Spells("Bytes "),
        Manner::Spells("bytes="),
        Manner::HidesLength,
        Manner::RefusesRanges("416 Range Not Satisfiable"),
        Manner::RefusesRanges("501 Not Implemented"),
        Manner::Busy(1),
    ];
    for manner in manners {
        let (report, servers) = fetched(&[manner], &[]).await;
        assert_eq!(report["mirrors"][0]["failures"], 0, "{manner:?}: {report:#}");
        let has_parts = !matches!(manner, Manner::RefusesRanges(_));
        assert_eq!(servers[0].requests() > 4, has_parts, "{manner:?}: {} requests", servers[0].requests());
    }
}

#[tokio::test]
async fn a_file_that_comes_in_one_answer_only_is_taken_so() {
    for manner in [Manner::Chunked, Manner::Closes, Manner::Compresses] {
        fetched(&[manner], &[]).await;
        fetched(&[manner], &["--sha256", &sha256(&content())]).await;
    }
    // From whom it can be had in parts has it, then.
    let (report, _servers) = fetched(&[Manner::Chunked, Manner::Fine], &[]).await;
    assert_eq!(bytes(&report, 0), 0, "{report:#}");
}

#[tokio::test]
async fn who_knows_the_hash_of_what_is_sent_gets_that() {
    let server = Server::start(Manner::Compresses, &content(), Duration::ZERO).await;
    let place = Place::new();
    let sent = as_sent(&server).await;
    let (report, output) = place.fetch(&[server.url()], &["--sha256", &sha256(&sent)]).await;
    assert!(output.status.success() && fs::read(place.file()).unwrap() == sent, "{report:#}");
}

/// What a client gets that takes everything as it is.
async fn as_sent(server: &Server) -> Vec<u8> {
    let output = Command::new("curl").args(["-s", &server.url()]).output().await.unwrap();
    output.stdout
}

#[tokio::test]
async fn of_several_machines_behind_one_name_the_hash_counts() {
    let (report, servers) = fetched(&[Manner::Balanced], &["--sha256", &sha256(&content())]).await;
    assert_eq!(report["mirrors"][0]["failures"], 0, "{report:#}");
    assert!(servers[0].requests() > 4, "it is fetched in parts");
    // Without it, what one of them says in one answer.
    let (report, _servers) = fetched(&[Manner::Balanced], &[]).await;
    assert!(problem(&report, 0).contains("its version of the file changed"), "{report:#}");
    // The hash counts also for whoever goes on later.
    let (content, place) = (content(), Place::new());
    let hash = sha256(&content);
    let wanted = ["--sha256", &hash];
    let slow = Server::start(Manner::Fine, &content, Duration::from_millis(20)).await;
    let tool = place.command(&[slow.url()], &wanted).stdout(std::process::Stdio::piped()).spawn().unwrap();
    while slow.sent() < LENGTH as u64 / 4 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let id = tool.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().await.unwrap().success());
    drop(tool.wait_with_output().await.unwrap());
    let other = Server::start(Manner::ChangesAfter(0), &content, Duration::ZERO).await;
    let (report, _) = place.fetch(&[other.url()], &wanted).await;
    assert!(report["resumed_bytes"].as_u64() > Some(0) && report["complete"] == true, "{report:#}");
}

#[tokio::test]
async fn an_empty_file_is_a_file() {
    for manner in [Manner::RefusesRanges("416 Range Not Satisfiable"), Manner::OnlyWhole] {
        let server = Server::start(manner, &[], Duration::ZERO).await;
        let place = Place::new();
        let (report, output) = place.fetch(&[server.url()], &["--sha256", &sha256(&[])]).await;
        assert!(output.status.success() && report["length"] == 0, "{report:#}");
        assert_eq!(fs::read(place.file()).unwrap(), b"");
    }
}

/// Two uplinks to one server; needs root.
#[test]
fn mirrors_are_asked_by_all_interfaces_at_once() {
    let [site, hub] = [(); 2].map(|()| Namespace::new().expect("namespaces, which take root"));
    hub.add_address("lo", "192.0.2.1/32".parse().unwrap()).unwrap();
    for (number, uplink) in ["up0", "up1"].into_iter().enumerate() {
        let down = format!("down{number}");
        link_pair(&site, uplink, &hub, &down).unwrap();
        site.add_address(uplink, format!("10.0.{number}.2/24").parse().unwrap()).unwrap();
        hub.add_address(&down, format!("10.0.{number}.1/24").parse().unwrap()).unwrap();
        let gateway = format!("10.0.{number}.1").parse().unwrap();
        let metric = 100 + u32::try_from(number).unwrap();
        site.add_route_with_metric("0.0.0.0/0".parse().unwrap(), gateway, metric).unwrap();
    }
    let content = content();
    let listener = hub.run(|| std::net::TcpListener::bind("192.0.2.1:80").unwrap());
    listener.set_nonblocking(true).unwrap();
    let serve = async {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let _server = Server::start_on(listener, &content, SLOWLY);
        let place = Place::new();
        let url = "http://192.0.2.1/pub/file.bin".to_owned();
        let ways = ["--interface", "up0", "--interface", "up1", "--interface", "10.0.1.2"];
        let (report, output) = place.fetch(std::slice::from_ref(&url), &ways).await;
        assert!(output.status.success() && fs::read(place.file()).unwrap() == content, "{report:#}");
        for (mirror, way) in ["up0", "up1", "10.0.1.2"].into_iter().enumerate() {
            assert!(
                bytes(&report, mirror) > 0 && report["mirrors"][mirror]["interface"] == way,
                "{report:#}"
            );
        }
        let place = Place::new();
        let (report, output) = place.fetch(&[url], &["--interface", "up0", "--interface", "gone"]).await;
        assert!(output.status.success(), "{report:#}");
        assert!(problem(&report, 1).contains("cannot send through the interface gone"), "{report:#}");
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    site.run(|| runtime.block_on(serve));
}

#[tokio::test]
async fn secure_mirrors_must_be_trusted() {
    let content = content();
    let (secure, plain) =
        (Server::start_secure(&content).await, Server::start(Manner::Fine, &content, SLOWLY).await);
    let fetch = async |trusted: &str| {
        let place = Place::new();
        let mut command = place.command(&[secure.url(), plain.url()], &[]);
        let output = command.env("SSL_CERT_FILE", trusted).env_remove("SSL_CERT_DIR").output().await.unwrap();
        assert!(fs::read(place.file()).unwrap() == content, "{output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let report = fetch(AUTHORITY).await;
    assert!(bytes(&report, 0) > 0, "{report:#}");
    let report = fetch("/dev/null").await;
    assert_eq!(bytes(&report, 0), 0, "{report:#}");
    assert!(problem(&report, 0).contains("no certificates to check"), "{report:#}");
    // Somebody else's.
    let stranger = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fetch/tls/stranger.pem");
    let report = fetch(stranger).await;
    assert_eq!((bytes(&report, 0), &report["mirrors"][0]["failures"]), (0, &Value::from(1)), "{report:#}");
    assert!(problem(&report, 0).contains("no secure connection"), "{report:#}");
}

#[tokio::test]
async fn an_interrupted_run_is_gone_on_with() {
    let content = content();
    let slow = Server::start(Manner::Fine, &content, Duration::from_millis(20)).await;
    let place = Place::new();
    let tool = place.command(&[slow.url()], &[]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    while slow.sent() < LENGTH as u64 / 4 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let id = tool.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().await.unwrap().success());
    let output = tool.wait_with_output().await.unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        !output.status.success() && report["error"].as_str().unwrap().contains("interrupted"),
        "{report:#}"
    );
    assert_eq!(place.names(), ["file.bin.part", "file.bin.part.json"]);
    let before = report["bytes"].as_u64().unwrap();
    assert!(before > LENGTH as u64 / 8, "{report:#}");

    let fast = Server::start(Manner::Fine, &content, Duration::ZERO).await;
    let (report, _) = place.fetch(&[slow.url(), fast.url()], &[]).await;
    assert_eq!(report["resumed_bytes"].as_u64(), Some(before), "{report:#}");
    assert_eq!(report["bytes"].as_u64(), Some(LENGTH as u64 - before));
    assert!(fs::read(place.file()).unwrap() == content);
    assert_eq!(place.names(), ["file.bin"]);
}

#[tokio::test]
async fn what_is_left_of_another_version_is_not_used() {
    let content = content();
    let old = Server::start(Manner::OtherVersion, &content, Duration::ZERO).await;
    let place = Place::new();
    // The wrong hash keeps what has arrived.
    let (report, output) = place.fetch(&[old.url()], &["--sha256", &sha256(&content)]).await;
    assert!(!output.status.success() && report["error"].as_str().unwrap().contains("SHA-256"), "{report:#}");
    assert_eq!(place.names(), ["file.bin.part", "file.bin.part.json"]);
    let new = Server::start(Manner::Fine, &content, Duration::ZERO).await;
    let (report, output) = place.fetch(&[new.url()], &[]).await;
    assert_eq!(report["resumed_bytes"], 0, "{report:#}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("another version"), "{output:?}");
    assert!(fs::read(place.file()).unwrap() == content);
}

#[tokio::test]
async fn the_right_hash_can_be_given_later() {
    let content = content();
    let server = Server::start(Manner::Fine, &content, Duration::ZERO).await;
    let place = Place::new();
    let (_, output) = place.fetch(&[server.url()], &["--sha256", &"0".repeat(64)]).await;
    assert!(!output.status.success());
    let sent = server.sent();
    let (report, output) = place.fetch(&[server.url()], &["--sha256", &sha256(&content)]).await;
    assert!(output.status.success(), "{report:#}");
    assert!(server.sent() <= sent + 1, "nothing but a first byte is asked for again");
}

#[tokio::test]
async fn mirrors_that_disagree_are_shown() {
    let content = content();
    let new = Server::start(Manner::Fine, &content, Duration::ZERO).await;
    let old = Server::start(Manner::OtherLength, &content, Duration::ZERO).await;
    let place = Place::new();
    let (report, output) = place.fetch(&[new.url(), old.url()], &[]).await;
    assert!(!output.status.success());
    let error = report["error"].as_str().unwrap();
    assert!(
        error.contains("different versions of the file")
            && error.contains(&new.url())
            && error.contains("3000004 bytes"),
        "{error}"
    );
    assert_eq!(place.names(), Vec::<String>::new());
}

#[tokio::test]
async fn without_any_mirror_each_is_named_with_its_fault() {
    let server = Server::start(Manner::Missing, &[], Duration::ZERO).await;
    let place = Place::new();
    let (report, output) = place.fetch(&[server.url(), "http://127.0.0.1:1/file.bin".to_owned()], &[]).await;
    assert!(!output.status.success());
    let error = report["error"].as_str().unwrap();
    assert!(error.contains("404") && error.contains("cannot connect to 127.0.0.1:1"), "{error}");
    assert_eq!(place.names(), Vec::<String>::new());
}

#[tokio::test]
async fn a_file_that_exists_stays() {
    let server = Server::start(Manner::Fine, &content(), Duration::ZERO).await;
    let place = Place::new();
    fs::write(place.file(), "mine").unwrap();
    let (report, output) = place.fetch(&[server.url()], &[]).await;
    assert!(!output.status.success() && report["error"].as_str().unwrap().contains("exists"));
    assert_eq!((fs::read(place.file()).unwrap(), server.requests()), (b"mine".to_vec(), 0));
}
