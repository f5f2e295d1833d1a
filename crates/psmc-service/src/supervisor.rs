//! What systemd is told (sd_notify(3)): that a program runs, that it is alive, that it reads its configuration again.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Beats in the time after which the supervisor takes a program for stuck: one that is late does no harm.
const BEATS: u32 = 4;

/// Where there is no watchdog the loop beats all the same, for nobody.
const IDLE: Duration = Duration::from_secs(3600);

/// The supervisor, if there is one. Telling it never waits.
#[derive(Debug)]
pub struct Supervisor {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
    /// Whether the other thread has answered since it was last asked.
    other_lives: Arc<AtomicBool>,
}

impl Supervisor {
    /// The one that the environment names.
    #[must_use]
    pub fn from_environment() -> Self {
        let variable = |name| std::env::var(name).ok();
        let is_meant = variable("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let watchdog = variable("WATCHDOG_USEC").and_then(|micros| micros.parse().ok());
        Self::new(
            variable("NOTIFY_SOCKET").as_deref(),
            watchdog.filter(|_| is_meant).map(Duration::from_micros),
        )
    }

    fn new(address: Option<&str>, watchdog: Option<Duration>) -> Self {
        let other_lives = Arc::new(AtomicBool::new(true));
        Self { socket: address.and_then(connect), watchdog, other_lives }
    }

    /// How often to beat.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.watchdog.map_or(IDLE, |watchdog| watchdog / BEATS).max(Duration::from_millis(1))
    }

    /// The program runs, or runs again as it should.
    pub fn ready(&self) {
        self.tell("READY=1");
    }

    /// The configuration is being read again.
    pub fn reloading(&self) {
        self.tell("RELOADING=1");
    }

    /// The program is about to end.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// The loop has come round. To be called by the loop itself, so that one that is stuck is found out; and so is another thread
    /// that has not set what this returns since the last time.
    #[must_use = "a thread that is to live has to set it"]
    pub fn beat(&self) -> Arc<AtomicBool> {
        if self.other_lives.swap(false, Ordering::Relaxed) {
            self.tell("WATCHDOG=1");
        }
        self.other_lives.clone()
    }

    fn tell(&self, what: &str) {
        if let Some((socket, address)) = &self.socket {
            // A supervisor that does not listen will find out by itself.
            let _ = socket.send_to_addr(what.as_bytes(), address);
        }
    }
}

/// A socket for the address of a supervisor: a path, or a name in the abstract namespace after `@`.
fn connect(address: &str) -> Option<(UnixDatagram, SocketAddr)> {
    let address = match address.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(address),
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_nonblocking(true).ok()?;
    Some((socket, address.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supervisor_hears_of_a_loop_that_goes_round_and_of_a_thread_that_answers() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let listener = UnixDatagram::bind(&path).unwrap();
        let supervisor = Supervisor::new(path.to_str(), Some(Duration::from_secs(20)));
        assert_eq!(supervisor.interval(), Duration::from_secs(5));
        listener.set_nonblocking(true).unwrap();
        let heard = || {
            let mut text = [0; 64];
            listener.recv(&mut text).ok().map(|len| String::from_utf8(text[..len].to_vec()).unwrap())
        };
        supervisor.ready();
        assert_eq!(heard().as_deref(), Some("READY=1"));
        let other = supervisor.beat();
        assert_eq!(heard().as_deref(), Some("WATCHDOG=1"));
        let _ = supervisor.beat();
        assert_eq!(heard(), None, "the other thread has not answered");
        other.store(true, Ordering::Relaxed);
        let _ = supervisor.beat();
        assert_eq!(heard().as_deref(), Some("WATCHDOG=1"));
    }

    #[test]
    fn without_a_supervisor_nobody_is_told() {
        let supervisor = Supervisor::new(None, None);
        supervisor.ready();
        let _ = supervisor.beat();
        assert_eq!(supervisor.interval(), IDLE);
    }
}
