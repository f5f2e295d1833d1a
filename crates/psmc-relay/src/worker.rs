//! A worker: a thread that owns an engine and a socket, and moves datagrams.
//!
//! Nothing on it ever waits for the control side, which asks for things by jobs.

mod moderation;
mod neighbours;
mod outbox;
mod raw;

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use psmc_core::relay::{Address, PlainCounters, PlainStatus, Relay, RelayConfig};
use psmc_net::ipip;
use psmc_net::udp::{RecvBatch, UdpPort};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;

use self::moderation::{Moderation, Processor};
use self::neighbours::Exchange;
use self::outbox::Outbox;

/// Jobs that wait for a worker; a full queue makes the control side wait, never the worker.
const MAX_JOBS: usize = 256;

/// Reads before waiting datagrams, timers and jobs get their turn.
const READS_PER_TURN: usize = 4;

/// Turns before other tasks of the runtime (the timer, above all) get theirs.
const TURNS_PER_WAKE: usize = 16;

/// Datagrams that have waited, and are sent before reading goes on.
const MAX_WAITED_PER_TURN: usize = 256;

/// Datagrams of other workers that are handled before reading goes on.
const MAX_STRAYS_PER_TURN: usize = 256;

type Job = Box<dyn FnOnce(&mut Worker) + Send>;

/// What a worker has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Datagrams that came.
    pub(crate) received: u64,
    /// Their bytes.
    pub(crate) received_bytes: u64,
    /// Datagrams that the network took.
    pub(crate) sent: u64,
    /// Their bytes.
    pub(crate) sent_bytes: u64,
    /// Runs of datagrams to one address, each of which left at once; what goes into tunnels does so one by one.
    pub(crate) runs: u64,
    /// Datagrams that the network did not take.
    pub(crate) send_drops: u64,
    /// Datagrams that came to a worker to which they do not belong, and were handed over.
    pub(crate) strayed: u64,
    /// Those that were not, because the other worker has too much to do.
    pub(crate) stray_drops: u64,
    /// ICMP errors that say that a datagram was too long for a link on its way.
    pub(crate) heard_too_big: u64,
}

pub(crate) use self::neighbours::{LABEL_BYTE, neighbours};
pub(crate) use self::raw::{Errors, TunnelSocket};

/// The sockets of a worker.
pub(crate) struct Sockets {
    pub(crate) port: UdpPort,
    /// For IP-in-IP: of the first worker only, and if the relay may have it.
    pub(crate) tunnels: Option<TunnelSocket>,
    /// For ICMP errors: of the first worker only, and if the relay may have it.
    pub(crate) errors: Option<Errors>,
}

/// The engine, and everything datagrams go through.
pub(crate) struct Worker {
    pub(crate) relay: Relay,
    pub(crate) moved: Moved,
    sockets: Sockets,
    received: RecvBatch,
    wrapped: ipip::RecvBatch,
    outbox: Outbox,
    strays: Exchange,
    moderation: Moderation,
    processor: Processor,
    jobs: mpsc::Receiver<Job>,
    timer: Pin<Box<Sleep>>,
}

/// The control side's hold on a worker, which ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Handle {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// The worker has ended, which it does only because of a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a worker has stopped; see the log")]
pub struct WorkerDied;

/// Starts a worker on a thread of its own. `sockets` makes its sockets there, within the worker's runtime.
pub(crate) fn start<E: Send + 'static>(
    config: RelayConfig,
    strays: Exchange,
    sockets: impl FnOnce() -> Result<Sockets, E> + Send + 'static,
) -> std::io::Result<(Handle, oneshot::Receiver<Result<u16, E>>)> {
    let (sender, jobs) = mpsc::channel(MAX_JOBS);
    let (ready, started) = oneshot::channel();
    let name = format!("worker-{}", config.worker.0);
    let thread =
        std::thread::Builder::new().name(name).spawn(move || run(&config, strays, sockets, jobs, ready))?;
    Ok((Handle { jobs: Some(sender), thread: Some(thread) }, started))
}

fn run<E>(
    config: &RelayConfig,
    strays: Exchange,
    sockets: impl FnOnce() -> Result<Sockets, E>,
    jobs: mpsc::Receiver<Job>,
    ready: oneshot::Sender<Result<u16, E>>,
) {
    psmc_net::priority::wake_exactly();
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!(%error, "cannot make the runtime of a worker"),
    };
    runtime.block_on(async {
        let sockets = match sockets() {
            Ok(sockets) => sockets,
            // Whoever waits for the answer has gone only if the whole relay is ending.
            Err(error) => return drop(ready.send(Err(error))),
        };
        let number = sockets.port.local_addr().port();
        let mut worker = Worker {
            relay: Relay::new(config),
            moved: Moved::default(),
            sockets,
            received: RecvBatch::new(),
            wrapped: ipip::RecvBatch::new(),
            outbox: Outbox::new(),
            strays,
            moderation: Moderation::new(Instant::now()),
            processor: Processor::of_this_thread(),
            jobs,
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
        };
        if ready.send(Ok(number)).is_ok() {
            poll_fn(|cx| worker.poll(cx)).await;
        }
    });
}

impl Handle {
    /// Runs a job on the worker, and waits for its result.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Worker) -> T + Send + 'static,
    ) -> Result<T, WorkerDied> {
        let (sender, receiver) = oneshot::channel();
        let jobs = self.jobs.as_ref().ok_or(WorkerDied)?;
        // The caller may have lost interest in the result.
        let job: Job = Box::new(move |worker| drop(sender.send(work(worker))));
        jobs.send(job).await.map_err(|_| WorkerDied)?;
        receiver.await.map_err(|_| WorkerDied)
    }

    /// Waits until the worker has ended by itself.
    pub(crate) async fn ended(&self) {
        if let Some(jobs) = &self.jobs {
            jobs.closed().await;
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the worker has been reported where it happened.
            let _ = thread.join();
        }
    }
}

impl Worker {
    /// Whether there can be sessions in IP-in-IP.
    pub(crate) fn has_tunnels(&self) -> bool {
        self.sockets.tunnels.is_some()
    }

    /// The plain tunnels as they stand, in the order of the file, and what went no further.
    pub(crate) fn plain_status(&self, now: Instant) -> (Vec<PlainStatus>, PlainCounters) {
        self.sockets.tunnels.as_ref().map(|tunnels| tunnels.plain_status(now)).unwrap_or_default()
    }

    /// Moves datagrams until there is nothing to do; ready when the control side has let go.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..TURNS_PER_WAKE {
            let Some(mut progress) = self.do_jobs(cx) else {
                return Poll::Ready(());
            };
            let has_read = self.poll_port(cx) | self.poll_tunnels(cx);
            progress |= has_read;
            progress |= self.poll_errors(cx);
            progress |= self.poll_strays(cx);
            progress |= self.poll_timer(cx);
            self.flush();
            if !progress {
                return Poll::Pending;
            }
            if has_read {
                self.moderate();
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Lets a moment pass if more is read at once then. A timer of the runtime could not be that short.
    fn moderate(&mut self) {
        let waited = || self.processor.waited();
        if let Some(pause) = self.moderation.pause(&self.moved, waited, Instant::now()) {
            std::thread::sleep(pause);
        }
    }

    /// Does waiting jobs; says whether there were any. `None` if there never will be any more.
    fn do_jobs(&mut self, cx: &mut Context<'_>) -> Option<bool> {
        let mut progress = false;
        loop {
            match self.jobs.poll_recv(cx) {
                Poll::Ready(Some(job)) => job(self),
                Poll::Ready(None) => return None,
                Poll::Pending => return Some(progress),
            }
            progress = true;
        }
    }

    fn poll_port(&mut self, cx: &mut Context<'_>) -> bool {
        let mut progress = false;
        for _ in 0..READS_PER_TURN {
            match self.sockets.port.poll_recv(cx, &mut self.received) {
                Poll::Ready(Ok(_)) => progress = true,
                Poll::Ready(Err(error)) => {
                    tracing::debug!(%error, "cannot receive");
                    break;
                }
                Poll::Pending => break,
            }
            let now = Instant::now();
            let is_all = !self.received.is_full();
            for (meta, datagram) in self.received.datagrams() {
                self.moved.received += 1;
                self.moved.received_bytes += datagram.len() as u64;
                let from = Address { local_ip: meta.local_ip, ..Address::of(meta.remote) };
                if let Some(owner) = self.strays.owner_elsewhere(datagram) {
                    self.strays.hand_over(owner, datagram, from, &mut self.moved);
                } else if let Some((to, bytes)) = self.relay.handle_datagram(datagram, from, now) {
                    self.outbox.push(to, bytes, &mut self.sockets, &mut self.moved);
                }
            }
            // What is there need not wait for the call that would say that there is no more.
            if is_all {
                break;
            }
        }
        progress
    }

    fn flush(&mut self) {
        self.outbox.flush(&self.sockets.port, &mut self.moved);
        if let Some(tunnels) = &mut self.sockets.tunnels {
            tunnels.flush(&mut self.moved);
        }
    }

    /// Handles what other workers have handed over; says whether there was anything.
    fn poll_strays(&mut self, cx: &mut Context<'_>) -> bool {
        let mut progress = false;
        for _ in 0..MAX_STRAYS_PER_TURN {
            let Poll::Ready(Some((from, mut datagram))) = self.strays.poll_next(cx) else { break };
            progress = true;
            let handled = self.relay.handle_datagram(datagram.packet_mut(), from, Instant::now());
            if let Some((to, bytes)) = handled {
                self.outbox.push(to, bytes, &mut self.sockets, &mut self.moved);
            }
            self.strays.recycle(datagram);
        }
        progress
    }

    /// Sends what need not wait any more, and sets the timer; says whether there may be more at once.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> bool {
        let now = Instant::now();
        if self.next_timeout() > now {
            return self.arm_timer(cx);
        }
        if let Some(tunnels) = &mut self.sockets.tunnels {
            tunnels.send_waiting(MAX_WAITED_PER_TURN, now, &mut self.moved);
        }
        self.relay.handle_timeout(now);
        for _ in 0..MAX_WAITED_PER_TURN {
            let Some((to, buffer, bytes)) = self.relay.poll_waiting(now) else {
                return self.arm_timer(cx);
            };
            self.outbox.push(to, &buffer.packet()[bytes], &mut self.sockets, &mut self.moved);
            self.relay.recycle(buffer);
        }
        true
    }

    fn next_timeout(&self) -> Instant {
        let of_tunnels = self.sockets.tunnels.as_ref().and_then(TunnelSocket::poll_timeout);
        let of_relay = self.relay.poll_timeout();
        of_tunnels.map_or(of_relay, |at| at.min(of_relay))
    }

    /// Sets the timer to the next timeout; says whether that is due already.
    fn arm_timer(&mut self, cx: &mut Context<'_>) -> bool {
        let at = self.next_timeout().into();
        if self.timer.deadline() != at {
            self.timer.as_mut().reset(at);
        }
        self.timer.as_mut().poll(cx).is_ready()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use psmc_core::relay::Limiter;
    use psmc_net::udp::UdpBind;

    use super::*;

    #[tokio::test]
    async fn a_panic_of_a_worker_is_noticed() {
        let config = RelayConfig {
            max_sessions: 1,
            max_waiting: 1,
            idle: Duration::from_secs(60),
            worker: (0, 1),
            total: Arc::new(Limiter::new(None)),
            seed: 0,
            origin: Instant::now(),
        };
        let bind = UdpBind { address: (Ipv4Addr::LOCALHOST, 0).into(), interface: None };
        let sockets = move || UdpPort::bind(&bind).map(|port| Sockets { port, tunnels: None, errors: None });
        let exchange = neighbours(1).remove(0);
        let (handle, started) = start(config, exchange, sockets).expect("a thread");
        started.await.expect("it runs").expect("a socket");
        assert_eq!(handle.call(|_| ()).await, Ok(()));
        let ended = handle.ended();
        let mut ended = std::pin::pin!(ended);
        let is_over = tokio::time::timeout(Duration::ZERO, ended.as_mut()).await;
        assert!(is_over.is_err(), "it works");
        assert_eq!(handle.call::<()>(|_| panic!("a bug")).await, Err(WorkerDied));
        ended.await;
    }
}
