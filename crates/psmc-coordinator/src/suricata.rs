//! Alerts of Suricata, from the file of its eve-log.

use std::collections::BTreeMap;
use std::io::{self, SeekFrom};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use psmc_signal::{Alert, AlertKind, Measured};
use serde::Deserialize;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;

use crate::config::Config;
use crate::engine::{Input, Order};

/// How often it is looked for more.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How much is read at a time, in bytes; the longest line that is understood.
const CHUNK: usize = 64 * 1024;

/// How long an alert counts: Suricata repeats what goes on, and clears nothing.
const LASTS: Duration = Duration::from_secs(60);

/// How often the same alert is passed on.
const REPEAT_EVERY: Duration = Duration::from_secs(5);

/// The kind of line that matters, and what of it does. Suricata writes much more, and more in each release.
#[derive(Debug, Deserialize)]
struct Eve {
    event_type: String,
    dest_ip: Option<IpAddr>,
    alert: Option<Signature>,
}

#[derive(Debug, Deserialize)]
struct Signature {
    signature_id: u64,
}

/// Follows the file for ever, through rotation, from its end on.
pub(crate) async fn follow(path: PathBuf, config: watch::Receiver<Arc<Config>>, engine: mpsc::Sender<Input>) {
    let mut tail = Tail { path, file: None, pending: Vec::new(), is_first: true };
    let mut told: BTreeMap<(String, u64), Instant> = BTreeMap::new();
    loop {
        let lines = match tail.read().await {
            Ok(lines) => lines,
            Err(error) => {
                tracing::debug!(%error, path = %tail.path.display(), "cannot read Suricata's events");
                tail.file = None;
                Vec::new()
            }
        };
        told.retain(|_, since| since.elapsed() < REPEAT_EVERY);
        let current = config.borrow().clone();
        for (service, signature) in lines.iter().flat_map(|line| alerts(line, &current)) {
            if told.insert((service.clone(), signature), Instant::now()).is_some() {
                continue;
            }
            let alert = Alert {
                id: format!("suricata-{signature}"),
                service,
                target: None,
                kind: AlertKind::Other,
                measured: Measured::default(),
                usual: Measured::default(),
            };
            let order =
                Order::Alert { source: "suricata".to_owned(), alert: Box::new(alert), lasts: Some(LASTS) };
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

/// The services that a line says are attacked, and by what it is known.
fn alerts(line: &[u8], config: &Config) -> Vec<(String, u64)> {
    let Ok(Eve { event_type, dest_ip: Some(ip), alert: Some(Signature { signature_id }) }) =
        serde_json::from_slice(line)
    else {
        return Vec::new();
    };
    if event_type != "alert" {
        return Vec::new();
    }
    let attacked =
        config.services.iter().filter(|service| service.addresses.iter().any(|net| net.contains(&ip)));
    attacked.map(|service| (service.title(), signature_id)).collect()
}

/// A file that grows, and is replaced by a new one at times.
struct Tail {
    path: PathBuf,
    file: Option<File>,
    /// The beginning of a line whose end was not written yet.
    pending: Vec<u8>,
    is_first: bool,
}

impl Tail {
    /// The lines that have come, up to [`CHUNK`] bytes of them.
    async fn read(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.open().await?,
        };
        let mut chunk = vec![0; CHUNK];
        let count = file.read(&mut chunk).await?;
        if count == 0 && was_replaced(&mut file, &self.path).await? {
            self.pending.clear();
            return Ok(Vec::new());
        }
        self.file = Some(file);
        self.pending.extend_from_slice(&chunk[..count]);
        let Some(end) = self.pending.iter().rposition(|byte| *byte == b'\n') else {
            if self.pending.len() > CHUNK {
                self.pending.clear();
            }
            return Ok(Vec::new());
        };
        let rest = self.pending.split_off(end + 1);
        let whole = std::mem::replace(&mut self.pending, rest);
        Ok(whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect())
    }

    /// Opens the file: the first one from its end on, what was written before the start is over.
    async fn open(&mut self) -> io::Result<File> {
        let mut file = File::open(&self.path).await?;
        if std::mem::take(&mut self.is_first) {
            file.seek(SeekFrom::End(0)).await?;
        }
        Ok(file)
    }
}

/// Whether another file has the name, or the file was cut short.
async fn was_replaced(file: &mut File, path: &Path) -> io::Result<bool> {
    let (ours, named) = (file.metadata().await?, tokio::fs::metadata(path).await?);
    let at = file.stream_position().await?;
    Ok((ours.dev(), ours.ino()) != (named.dev(), named.ino()) || ours.len() < at)
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
        let found = |text: &str| alerts(text.as_bytes(), &config);
        assert_eq!(found(&line("alert", "203.0.113.9")), [("www.example.com".to_owned(), 2100)]);
        for other in [
            line("alert", "203.0.113.99"),
            line("drop", "203.0.113.9"),
            line("alert", "not an address"),
            "{\"event_type\":\"stats\",\"stats\":{\"uptime\":1}}".to_owned(),
            "{\"event_type\":\"alert\",\"dest_ip\":\"203.0.113.9\",\"alert\":{}}".to_owned(),
            "nonsense".to_owned(),
        ] {
            assert_eq!(found(&other), [], "{other}");
        }
    }

    #[tokio::test]
    async fn a_file_is_followed_from_its_end_through_rotation() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("eve.json");
        std::fs::write(&path, "old\n").unwrap();
        let mut tail = Tail { path: path.clone(), file: None, pending: Vec::new(), is_first: true };
        assert!(tail.read().await.unwrap().is_empty(), "what was there before is over");
        let mut file = std::fs::File::options().append(true).open(&path).unwrap();
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(tail.read().await.unwrap(), [b"one"]);
        file.write_all(b"o\n").unwrap();
        assert_eq!(tail.read().await.unwrap(), [b"two"]);
        std::fs::rename(&path, directory.path().join("eve.json.1")).unwrap();
        std::fs::write(&path, "three\n").unwrap();
        assert!(tail.read().await.unwrap().is_empty());
        assert_eq!(tail.read().await.unwrap(), [b"three"]);
        std::fs::write(&path, "4\n").unwrap();
        assert!(tail.read().await.unwrap().is_empty(), "it was cut short");
        assert_eq!(tail.read().await.unwrap(), [b"4"]);
    }
}
