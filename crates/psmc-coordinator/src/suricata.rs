//! Alerts of Suricata, from the file of its eve-log.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io::{self, SeekFrom};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use psmc_signal::{Alert, AlertKind, Measured};
use serde::Deserialize;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;

use crate::config::Config;
use crate::engine::{Input, Order};
use crate::status::EveStatus;

/// What alerts of Suricata are called.
pub const SOURCE: &str = "suricata";

/// How often it is looked for more.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How much is read at a time, in bytes.
const CHUNK: usize = 64 * 1024;

/// The longest line that is understood, in bytes: with payloads, packets and bodies of HTTP in it they are far longer than
/// what is looked for in them.
const MAX_LINE: usize = 1 << 20;

/// How often the same alert is passed on.
const REPEAT_EVERY: Duration = Duration::from_secs(5);

/// How long a file may be missing before that is told: while it is rotated it is, for a moment.
const MISSING: Duration = Duration::from_secs(5);

/// How long a file that was rotated is read if nothing comes into the new one: Suricata writes to the old one until it is told
/// of the rotation.
const DRAIN: Duration = Duration::from_secs(60);

/// How it goes with the events. Clones are of the same.
#[derive(Clone, Debug, Default)]
pub struct Eve(Option<Arc<Mutex<EveStatus>>>);

impl Eve {
    /// Nothing yet, of the file that a configuration names.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let status = |file: &PathBuf| EveStatus { file: file.display().to_string(), ..EveStatus::default() };
        Self(config.eve_file.as_ref().map(|file| Arc::new(Mutex::new(status(file)))))
    }

    /// What there is to know, if events are followed at all.
    #[must_use]
    pub fn status(&self) -> Option<EveStatus> {
        self.0.as_ref().map(|status| lock(status).clone())
    }

    fn note(&self, change: impl FnOnce(&mut EveStatus)) {
        if let Some(status) = &self.0 {
            change(&mut lock(status));
        }
    }

    /// Tells of an error, or that there is none any more, once.
    fn told(&self, error: Option<String>) {
        self.note(|status| {
            match &error {
                Some(error) if status.error.as_ref() != Some(error) => {
                    tracing::warn!("cannot read Suricata's events: {error}");
                }
                None if status.error.is_some() => {
                    tracing::info!(file = status.file, "Suricata's events readable again");
                }
                Some(_) | None => {}
            }
            status.error = error;
        });
    }
}

fn lock(status: &Mutex<EveStatus>) -> MutexGuard<'_, EveStatus> {
    // Each change is whole in itself.
    status.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why no events can be read from a file, for people; `None` if they can.
#[must_use]
pub fn trouble(path: &Path) -> Option<String> {
    let opened = std::fs::metadata(path).and_then(|metadata| is_regular(&metadata));
    let opened = opened.and_then(|()| std::fs::File::open(path));
    opened.err().map(|error| explained(path, &error))
}

/// A reader of anything else would wait for ever, or take events from another one.
fn is_regular(metadata: &Metadata) -> io::Result<()> {
    let other = || io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file");
    if metadata.is_file() { Ok(()) } else { Err(other()) }
}

fn explained(path: &Path, error: &io::Error) -> String {
    let kind = error.kind();
    let remedy = if kind == io::ErrorKind::PermissionDenied {
        "have the coordinator run with the group that may read it and search its directory, or change their modes"
    } else if kind == io::ErrorKind::NotFound {
        "does Suricata run, and write there? Its suricata.yaml says where, in outputs: eve-log"
    } else if kind == io::ErrorKind::InvalidInput {
        "have Suricata write a file: in suricata.yaml, eve-log with filetype: regular"
    } else {
        "look at its disk"
    };
    format!("cannot read {}: {error}; {remedy}", path.display())
}

/// The kind of line that matters, and what of it does. Suricata writes much more, and more in each release.
#[derive(Debug, Deserialize)]
struct Event {
    event_type: String,
    dest_ip: Option<IpAddr>,
    alert: Option<Signature>,
}

#[derive(Debug, Deserialize)]
struct Signature {
    signature_id: u64,
}

/// Follows the file for ever, through rotation, from its end on.
pub(crate) async fn follow(
    path: PathBuf,
    eve: Eve,
    config: watch::Receiver<Arc<Config>>,
    engine: mpsc::Sender<Input>,
) {
    let mut tail = Tail::new(path);
    let mut told: BTreeMap<(String, u64), Instant> = BTreeMap::new();
    loop {
        let lines = tail.read().await;
        eve.told(lines.as_ref().err().map(|error| explained(&tail.path, error)));
        let lines = lines.unwrap_or_default();
        told.retain(|_, since| since.elapsed() < REPEAT_EVERY);
        let current = config.borrow().clone();
        let found: Vec<_> = lines.iter().map(|line| alerts(line, &current)).collect();
        eve.note(|status| {
            let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
            status.lines += count(lines.len());
            status.alerts += count(found.iter().flatten().map(Vec::len).sum());
            status.unreadable += count(found.iter().filter(|found| found.is_err()).count());
            status.unreadable += std::mem::take(&mut tail.too_long);
            status.rotations = tail.rotations;
        });
        for (service, signature) in found.into_iter().flatten().flatten() {
            if told.insert((service.clone(), signature), Instant::now()).is_some() {
                continue;
            }
            let order = order(service, signature);
            // Nobody waits: Suricata says it again.
            let (done, _) = oneshot::channel();
            if engine.send(Input::Order { order, done }).await.is_err() {
                return;
            }
        }
        if lines.is_empty() {
            sleep(LOOK_EVERY).await;
        }
    }
}

fn order(service: String, signature: u64) -> Order {
    let alert = Alert {
        id: format!("suricata-{signature}"),
        service,
        target: None,
        kind: AlertKind::Other,
        measured: Measured::default(),
        usual: Measured::default(),
    };
    Order::Alert { source: SOURCE.to_owned(), alert: Box::new(alert), lasts: None }
}

/// The services that a line says are attacked, and by what it is known. Fails for a line that is none of Suricata's.
fn alerts(line: &[u8], config: &Config) -> Result<Vec<(String, u64)>, serde_json::Error> {
    let Some((ip, signature_id)) = alert(line)? else { return Ok(Vec::new()) };
    let attacked =
        config.services.iter().filter(|service| service.addresses.iter().any(|net| net.contains(&ip)));
    Ok(attacked.map(|service| (service.title(), signature_id)).collect())
}

/// The address that a line says is attacked, and the number of the signature by which it is known; `None` if it says something else.
///
/// # Errors
///
/// If it is no line of Suricata's.
pub fn alert(line: &[u8]) -> Result<Option<(IpAddr, u64)>, serde_json::Error> {
    let Event { event_type, dest_ip, alert } = serde_json::from_slice(line)?;
    Ok(dest_ip.zip(alert.map(|alert| alert.signature_id)).filter(|_| event_type == "alert"))
}

/// A file that grows, and is replaced by a new one at times.
#[derive(Debug)]
struct Tail {
    path: PathBuf,
    file: Option<File>,
    /// The beginning of a line whose end was not written yet.
    pending: Vec<u8>,
    /// Whether that line is too long, so that the rest of it is passed over.
    is_too_long: bool,
    is_first: bool,
    /// Since when another file has the name, or none.
    replaced: Option<Instant>,
    /// Whether the new file has something, so that nothing comes into the old one any more.
    is_drained: bool,
    rotations: u64,
    /// Lines that were, since that was asked for.
    too_long: u64,
}

/// What has become of a file that was read to its end.
enum Fate {
    Stays,
    CutShort,
    /// The new file has so many bytes.
    Replaced(u64),
}

impl Tail {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            pending: Vec::new(),
            is_too_long: false,
            is_first: true,
            replaced: None,
            is_drained: false,
            rotations: 0,
            too_long: 0,
        }
    }

    /// The next lines that have come; none, if there are none.
    async fn read(&mut self) -> io::Result<Vec<Vec<u8>>> {
        if self.file.is_none() {
            self.file = Some(self.open().await?);
        }
        let mut chunk = vec![0; CHUNK];
        while let Some(file) = &mut self.file {
            let count = file.read(&mut chunk).await.inspect_err(|_| self.file = None)?;
            if count == 0 {
                self.look_for_another().await?;
                break;
            }
            let lines = self.lines(&chunk[..count]);
            if !lines.is_empty() {
                return Ok(lines);
            }
        }
        Ok(Vec::new())
    }

    /// Opens the file: what was written before the start is over, but not what is in a file that was not there then.
    async fn open(&mut self) -> io::Result<File> {
        let opened = match tokio::fs::metadata(&self.path).await.and_then(|metadata| is_regular(&metadata)) {
            Ok(()) => File::open(&self.path).await,
            Err(error) => Err(error),
        };
        if opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            self.is_first = false;
        }
        let mut file = opened?;
        if std::mem::take(&mut self.is_first) {
            file.seek(SeekFrom::End(0)).await?;
        }
        Ok(file)
    }

    /// At the end of the file: goes on with another one that has the name, if nothing comes into this one any more.
    async fn look_for_another(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let length = match fate(file, &self.path).await {
            Ok(Fate::Stays) => {
                self.replaced = None;
                return Ok(());
            }
            Ok(Fate::CutShort) => {
                self.begin_anew();
                return Ok(());
            }
            Ok(Fate::Replaced(length)) => length,
            Err(error) => {
                // It is read on, for Suricata may not know yet that the name is gone.
                let since = *self.replaced.get_or_insert_with(Instant::now);
                return if since.elapsed() < MISSING { Ok(()) } else { Err(error) };
            }
        };
        let since = *self.replaced.get_or_insert_with(Instant::now);
        if self.is_drained || since.elapsed() > DRAIN {
            self.begin_anew();
        }
        // What came into the old one before the new one was begun is still read.
        self.is_drained = self.file.is_some() && length > 0;
        Ok(())
    }

    fn begin_anew(&mut self) {
        (self.file, self.replaced, self.is_drained) = (None, None, false);
        (self.is_first, self.is_too_long) = (false, false);
        self.pending.clear();
        self.rotations += 1;
    }

    fn lines(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.pending.len() + piece.len() > MAX_LINE && !self.is_too_long {
                (self.is_too_long, self.too_long) = (true, self.too_long + 1);
                self.pending.clear();
            }
            if !self.is_too_long {
                self.pending.extend_from_slice(piece.strip_suffix(b"\n").unwrap_or(piece));
            }
            if piece.ends_with(b"\n") {
                lines.push(std::mem::take(&mut self.pending));
                self.is_too_long = false;
            }
        }
        lines.retain(|line| !line.is_empty());
        lines
    }
}

/// Whether another file has the name, or the file was cut short.
async fn fate(file: &mut File, path: &Path) -> io::Result<Fate> {
    let (ours, named) = (file.metadata().await?, tokio::fs::metadata(path).await?);
    if (ours.dev(), ours.ino()) != (named.dev(), named.ino()) {
        return Ok(Fate::Replaced(named.len()));
    }
    let at = file.stream_position().await?;
    Ok(if ours.len() < at { Fate::CutShort } else { Fate::Stays })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const FILE: &str = "[coordinator]\nname = \"co1\"\nprivate_key_file = \"k\"\n\
        [[relay]]\nname = \"r\"\naddress = \"192.0.2.7:1\"\npublic_key = \"A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=\"\n\
        [[service]]\nname = \"www.example.com\"\nkey_file = \"k\"\naddresses = [\"203.0.113.0/28\"]\n";

    fn config() -> Config {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("k");
        std::fs::write(&key, psmc_net::keys::PrivateKey::from_seed([1; 32]).to_base64().as_str()).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        Config::parse(FILE, &directory.path().join("co.toml")).unwrap()
    }

    #[test]
    fn only_alerts_about_services_count() {
        let config = config();
        let line = |kind: &str, ip: &str| {
            format!(
                "{{\"timestamp\":\"2026-01-01T00:00:00.0+0000\",\"event_type\":\"{kind}\",\"src_ip\":\"198.51.100.1\",\
                 \"dest_ip\":\"{ip}\",\"alert\":{{\"action\":\"allowed\",\"signature_id\":2100,\"signature\":\"x\"}}}}"
            )
        };
        let found = |text: &str| alerts(text.as_bytes(), &config).unwrap();
        assert_eq!(found(&line("alert", "203.0.113.9")), [("www.example.com".to_owned(), 2100)]);
        for other in [
            line("alert", "203.0.113.99"),
            line("drop", "203.0.113.9"),
            "{\"event_type\":\"stats\",\"stats\":{\"uptime\":1}}".to_owned(),
        ] {
            assert_eq!(found(&other), [], "{other}");
        }
        for other in ["nonsense", "{\"event_type\":\"alert\",\"dest_ip\":\"203.0.113.9\",\"alert\":{}}"] {
            assert!(alerts(other.as_bytes(), &config).is_err(), "{other}");
        }
    }

    /// A tail of a file, which has this in it if it is there.
    async fn tail(path: &Path, before: Option<&str>) -> Tail {
        if let Some(before) = before {
            std::fs::write(path, before).unwrap();
        }
        let mut tail = Tail::new(path.to_owned());
        assert_eq!(tail.read().await.ok().map(|lines| lines.len()), before.map(|_| 0));
        tail
    }

    /// All that it reads until there is nothing for a while.
    async fn all(tail: &mut Tail) -> Vec<String> {
        let mut all = Vec::new();
        let mut idle = 0;
        while idle < 4 {
            let lines = tail.read().await.unwrap();
            idle = if lines.is_empty() { idle + 1 } else { 0 };
            all.extend(lines.into_iter().map(|line| String::from_utf8(line).unwrap()));
        }
        all
    }

    fn append(path: &Path, text: &str) -> std::fs::File {
        let mut file = std::fs::File::options().append(true).create(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[tokio::test]
    async fn a_file_is_followed_from_its_end_through_rotation() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("eve.json");
        let mut tail = tail(&path, Some("old\n")).await;
        let mut file = append(&path, "one\ntw");
        assert_eq!(tail.read().await.unwrap(), [b"one"], "what was there before is over");
        file.write_all(b"o\n").unwrap();
        assert_eq!(all(&mut tail).await, ["two"]);
        std::fs::rename(&path, directory.path().join("eve.json.1")).unwrap();
        assert_eq!(all(&mut tail).await, [""; 0], "nothing has the name, for a moment");
        file.write_all(b"three\n").unwrap();
        std::fs::write(&path, "").unwrap();
        assert_eq!(all(&mut tail).await, ["three"], "Suricata does not know yet");
        file.write_all(b"four\n").unwrap();
        append(&path, "five\n");
        assert_eq!(all(&mut tail).await, ["four", "five"]);
        std::fs::write(&path, "6\n").unwrap();
        assert_eq!(all(&mut tail).await, ["6"], "it was cut short");
        assert_eq!(tail.rotations, 2);
    }

    #[tokio::test]
    async fn a_file_that_comes_later_is_read_from_its_beginning() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("eve.json");
        let mut tail = tail(&path, None).await;
        append(&path, "one\n");
        assert_eq!(all(&mut tail).await, ["one"]);
    }

    #[tokio::test]
    async fn lines_that_are_too_long_are_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("eve.json");
        let mut tail = tail(&path, Some("")).await;
        let long = "x".repeat(MAX_LINE / 2);
        append(&path, &format!("{long}\n{long}{long}{long}\nnext\n"));
        let lengths: Vec<_> = all(&mut tail).await.iter().map(String::len).collect();
        assert_eq!((lengths, tail.too_long), (vec![MAX_LINE / 2, 4], 1));
    }

    #[test]
    fn what_cannot_be_read_is_told_with_a_remedy() {
        let directory = tempfile::tempdir().unwrap();
        let missing = trouble(&directory.path().join("eve.json")).unwrap();
        assert!(missing.contains("does Suricata run"), "{missing}");
        let other = trouble(directory.path()).unwrap();
        assert!(other.contains("filetype: regular"), "{other}");
        let path = directory.path().join("eve.json");
        std::fs::write(&path, "").unwrap();
        assert_eq!(trouble(&path), None);
    }

    #[test]
    fn an_error_is_told_until_it_is_over() {
        let mut config = config();
        assert_eq!(Eve::of(&config).status(), None);
        config.eve_file = Some("/a/eve.json".into());
        let eve = Eve::of(&config);
        eve.told(Some("gone".to_owned()));
        assert_eq!(eve.clone().status().unwrap().error.as_deref(), Some("gone"));
        eve.told(None);
        assert_eq!(eve.status().unwrap().error, None);
    }

    mod properties {
        use proptest::prelude::*;

        use super::*;

        proptest! {
            /// However a file is cut into pieces, its lines are the same.
            #[test]
            fn lines_do_not_depend_on_pieces(
                text in "([a-c]{0,3}\n?){0,12}",
                cuts in prop::collection::vec(0usize..40, 0..6),
            ) {
                let mut tail = Tail::new(PathBuf::new());
                let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
                cuts.extend([0, text.len()]);
                cuts.sort_unstable();
                let mut lines = Vec::new();
                for cut in cuts.windows(2) {
                    lines.extend(tail.lines(&text.as_bytes()[cut[0]..cut[1]]));
                }
                let whole = text.rfind('\n').map_or("", |end| &text[..end]);
                let expected: Vec<_> =
                    whole.split('\n').filter(|line| !line.is_empty()).map(|line| line.as_bytes().to_vec()).collect();
                prop_assert_eq!(lines, expected);
            }
        }
    }
}
