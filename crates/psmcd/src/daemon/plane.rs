//! The data plane: a thread that owns the engine and everything packets go through.

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use psmc_core::{
    Batch, ConnectionId, DatagramOrigin, Event, MAX_SEGMENTS, PathHandle, PeerId, Site, SiteConfig, SocketId,
    StreamEvent,
};
use psmc_net::clock::Suspensions;
use psmc_net::poller::{Poller, Wakeup};
use psmc_net::stack::Stack;
use psmc_net::stream::StreamPort;
use psmc_net::tun::{Tun, TunConfig, TunError};
use psmc_net::udp::RecvBatch;
use psmc_service::daemon::{self, SystemError};
use psmc_wire::control::Message;
use psmc_wire::frame::StreamOutcome;
use psmc_wire::{PathId, StreamId};
use tokio::sync::{mpsc, oneshot};

use super::DaemonError;
use super::interface::Interface;
use super::port::{Port, Sent};
use super::splits::{self, Splits};
use super::tunnels::{Bind, PortError};
use psmc_api::Batches;

/// Jobs that wait for the plane; a full queue makes the control side wait, never the plane.
const MAX_JOBS: usize = 256;

/// Reads of each socket before what they brought is passed on: large enough to make batches, small enough that nothing
/// waits long.
const READS_PER_TURN: usize = 4;

/// To be told what is there already takes less than this; who waits for longer has slept.
const PAUSE: Duration = Duration::from_micros(10);

/// What the poller calls the tunnel's interface; it calls sockets by their numbers, which are smaller.
const INTERFACE: u64 = 1 << 32;

/// How often the TUN device is made at most: who deletes it once is a person, who does it each time wants it gone.
const ATTEMPTS: usize = 3;

/// Events for the log that wait to be written.
const MAX_NEWS: usize = 1024;

/// Work for the plane.
type Job = Box<dyn FnOnce(&mut Plane) + Send>;

/// What the plane tells the control side.
pub(super) enum Notice {
    /// An event of the engine.
    Event(Event),
    /// A message to be written to a control connection.
    Message(ConnectionId, Message),
}

/// An event of the engine for the log, with what it is about.
#[derive(Debug)]
pub(super) struct News {
    pub(super) event: Event,
    /// What the path is called that it is about.
    pub(super) path: Option<String>,
    /// Where that leads.
    pub(super) remote: Option<SocketAddr>,
}

/// What went through the kernel, in how many batches, and what was dropped beside the engine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PlaneCounters {
    pub(super) batches: Batches,
    /// Inner packets that the TUN device didn't take.
    pub(super) tun_drops: u64,
    /// Batches of which the network didn't take a part.
    pub(super) send_drops: u64,
}

/// The engine and everything packets go through.
pub(super) struct Plane {
    pub(super) site: Site,
    counters: PlaneCounters,
    interface: Interface,
    ports: BTreeMap<SocketId, Port>,
    received: RecvBatch,
    batch: Batch,
    links: Links,
    poller: Poller,
    /// TCP connections that are ended here, if any are.
    splits: Option<Splits>,
    suspensions: Suspensions,
}

/// What connects the plane with the control side.
struct Links {
    jobs: mpsc::Receiver<Job>,
    notices: mpsc::UnboundedSender<Notice>,
    news: mpsc::Sender<News>,
}

/// The control side's hold on the plane. When it is dropped, the plane ends and the TUN device is gone.
pub(super) struct PlaneHandle {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// What there is once the plane runs.
pub(super) struct Started {
    pub(super) handle: PlaneHandle,
    pub(super) notices: mpsc::UnboundedReceiver<Notice>,
    pub(super) news: mpsc::Receiver<News>,
    pub(super) tun_name: String,
    pub(super) tun_index: u32,
}

/// Starts the plane on a thread of its own, with its TUN device and without sockets or peers.
pub(super) async fn start(site: SiteConfig, tun: TunConfig) -> Result<Started, DaemonError> {
    let (job_sender, jobs) = mpsc::channel(MAX_JOBS);
    let (notice_sender, notices) = mpsc::unbounded_channel();
    let (news_sender, news) = mpsc::channel(MAX_NEWS);
    let (ready_sender, ready) = oneshot::channel();
    let links = Links { jobs, notices: notice_sender, news: news_sender };
    let body = move || run_thread(site, tun, links, ready_sender);
    let thread = std::thread::Builder::new().name("plane".to_owned()).spawn(body);
    let thread = thread.map_err(SystemError::of("the data plane's thread"))?;
    let (tun_name, tun_index) = ready.await.map_err(|_| DaemonError::PlaneDied)??;
    let handle = PlaneHandle { jobs: Some(job_sender), thread: Some(thread) };
    Ok(Started { handle, notices, news, tun_name, tun_index })
}

type Ready = oneshot::Sender<Result<(String, u32), DaemonError>>;

fn run_thread(site: SiteConfig, tun: TunConfig, links: Links, ready: Ready) {
    let made = create(tun).and_then(|tun| {
        let made = (tun.name().to_owned(), tun.index());
        let plane = Plane::new(site, tun, links);
        let plane = plane.map_err(SystemError::of("the data plane's poller"));
        Ok((plane?, made))
    });
    match made {
        // Whoever waits for the answer has gone only if the whole daemon is ending.
        Err(error) => drop(ready.send(Err(error))),
        Ok((plane, made)) => {
            if ready.send(Ok(made)).is_ok()
                && let Err(error) = plane.run()
            {
                tracing::error!(%error, "cannot wait for packets");
            }
        }
    }
}

/// Makes the TUN device, for which a runtime is needed, but not for using it. Somebody may delete it before it is set up.
fn create(config: TunConfig) -> Result<Tun, DaemonError> {
    daemon::run(async {
        for _ in 1..ATTEMPTS {
            match Tun::create(config.clone()).await {
                Err(TunError::SetUp(_)) => {}
                made => return Ok(made?),
            }
        }
        Ok(Tun::create(config).await?)
    })
}

/// A way to post jobs that does not keep the plane alive.
#[derive(Clone)]
pub(super) struct Poster {
    jobs: mpsc::WeakSender<Job>,
}

impl Poster {
    /// Runs a job on the plane, unless it has ended.
    pub(super) async fn post(&self, work: impl FnOnce(&mut Plane) + Send + 'static) {
        if let Some(jobs) = self.jobs.upgrade() {
            // It may end at any moment; then there is nothing left to be done.
            let _ = jobs.send(Box::new(work)).await;
        }
    }
}

impl PlaneHandle {
    /// For tasks that outlive none of this.
    pub(super) fn poster(&self) -> Poster {
        let none = || mpsc::channel(1).0.downgrade();
        Poster { jobs: self.jobs.as_ref().map_or_else(none, mpsc::Sender::downgrade) }
    }

    /// Runs a job on the plane and waits for its result.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Plane) -> T + Send + 'static,
    ) -> Result<T, DaemonError> {
        let (sender, receiver) = oneshot::channel();
        // The caller may have lost interest in the result.
        self.post(move |plane| drop(sender.send(work(plane)))).await?;
        receiver.await.map_err(|_| DaemonError::PlaneDied)
    }

    /// Runs a job on the plane.
    pub(super) async fn post(
        &self,
        work: impl FnOnce(&mut Plane) + Send + 'static,
    ) -> Result<(), DaemonError> {
        let jobs = self.jobs.as_ref().ok_or(DaemonError::PlaneDied)?;
        jobs.send(Box::new(work)).await.map_err(|_| DaemonError::PlaneDied)
    }
}

impl Drop for PlaneHandle {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the plane has been reported where it happened.
            let _ = thread.join();
        }
    }
}

impl Plane {
    fn new(site: SiteConfig, tun: Tun, links: Links) -> io::Result<Self> {
        let (poller, interface) = (Poller::new()?, Interface::new(tun));
        interface.listen(&poller, INTERFACE)?;
        Ok(Self {
            site: Site::new(site),
            counters: PlaneCounters::default(),
            interface,
            ports: BTreeMap::new(),
            received: RecvBatch::new(),
            batch: Batch::new(MAX_SEGMENTS),
            links,
            poller,
            splits: None,
            suspensions: Suspensions::from_now_on(),
        })
    }

    /// A path to be changed, unless it is gone.
    pub(super) fn path(&mut self, peer: PeerId, path: PathId) -> Option<PathHandle<'_>> {
        self.site.peer(peer).ok()?.path(path).ok()
    }

    /// Replaces a device that was deleted.
    ///
    /// # Errors
    /// Those of the poller.
    pub(super) fn replace_interface(&mut self, tun: Tun) -> io::Result<()> {
        self.interface.replace(tun);
        self.interface.listen(&self.poller, INTERFACE)
    }

    /// What it has done so far.
    pub(super) fn counters(&self) -> PlaneCounters {
        let (tun_read, tun_written) = (self.interface.read, self.interface.written);
        let batches = Batches { tun_read, tun_written, ..self.counters.batches };
        PlaneCounters { batches, tun_drops: self.interface.drops, ..self.counters }
    }

    /// Where a packet went to that has come out of the tunnel since this was last asked.
    pub(super) fn take_seen_destination(&mut self) -> Option<IpAddr> {
        self.interface.seen.take()
    }

    /// Opens a socket, or opens it again. Without an interface of that name the place stays empty.
    pub(super) fn open_port(&mut self, id: SocketId, bind: &Bind) -> Result<(), PortError> {
        self.ports.insert(id, Port::empty(id));
        self.ports.insert(id, Port::open(id, bind, &self.poller)?);
        Ok(())
    }

    /// Uses the end of a stream as a socket.
    pub(super) fn open_stream(&mut self, id: SocketId, stream: StreamPort) -> Result<(), PortError> {
        self.ports.insert(id, Port::of_stream(id, stream, &self.poller)?);
        Ok(())
    }

    /// Has TCP connections end on this stack, unless some do already.
    ///
    /// # Errors
    /// Those of the poller.
    pub(super) fn split_on(&mut self, stack: Stack) -> io::Result<()> {
        if self.splits.is_none() {
            self.splits = Some(Splits::new(stack, &self.poller)?);
        }
        Ok(())
    }

    /// Resets the TCP connections that are ended here and lead to a peer.
    pub(super) fn end_splits_of(&mut self, peer: PeerId) {
        if let Some(splits) = &mut self.splits {
            splits.end_those_of(peer, &mut self.site, Instant::now());
        }
    }

    /// Resets all TCP connections that are ended here, and ends no more.
    pub(super) fn end_splits(&mut self) {
        if let Some(mut splits) = self.splits.take() {
            splits.end(&mut self.site, &mut self.interface, Instant::now());
        }
    }

    /// Whether a socket is open.
    pub(super) fn is_open(&self, id: SocketId) -> bool {
        self.ports.get(&id).is_some_and(Port::is_open)
    }

    /// The local port of a socket that is open.
    pub(super) fn local_port(&self, id: SocketId) -> Option<u16> {
        self.ports.get(&id)?.local_port()
    }

    /// Closes a socket.
    pub(super) fn close_port(&mut self, id: SocketId) {
        self.ports.remove(&id);
    }

    /// Moves packets until the control side has let go.
    ///
    /// # Errors
    /// Those of the poller.
    fn run(mut self) -> io::Result<()> {
        let waker = self.poller.waker();
        let mut cx = Context::from_waker(&waker);
        let mut is_called = true;
        while !is_called || self.do_jobs(&mut cx) {
            self.interface.recv(&self.poller, &mut self.site, self.splits.as_mut());
            self.recv_from_ports();
            self.handle_timeout();
            self.carry_streams();
            self.flush();
            is_called = self.wait()?;
        }
        Ok(())
    }

    /// Does waiting jobs, and has the alarm ring for those to come; says whether there may be any.
    fn do_jobs(&mut self, cx: &mut Context<'_>) -> bool {
        loop {
            match self.links.jobs.poll_recv(cx) {
                Poll::Ready(Some(job)) => job(self),
                Poll::Ready(None) => return false,
                Poll::Pending => return true,
            }
        }
    }

    /// Waits until there is something to do; says whether the alarm has rung. It does not wait while something is known to be
    /// there, but asks what else is.
    fn wait(&mut self) -> io::Result<bool> {
        let is_busy =
            self.ports.values().any(Port::is_due) || self.splits.as_ref().is_some_and(Splits::is_due);
        let start = Instant::now();
        let until = if is_busy { Some(start) } else { self.site.poll_timeout() };
        let mut is_called = false;
        let wakeups = self.poller.wait(until)?;
        if let Some(time) = self.suspensions.take() {
            self.site.note_suspended(time);
        }
        if start.elapsed() > PAUSE {
            self.interface.note_pause();
        }
        for wakeup in wakeups {
            match wakeup {
                Wakeup::Alarm => is_called = true,
                Wakeup::Ready(INTERFACE) => self.interface.set_due(),
                Wakeup::Ready(token) => {
                    if self.splits.as_mut().is_some_and(|splits| splits.set_due(token)) {
                        continue;
                    }
                    let id = u32::try_from(token).map(SocketId);
                    if let Some(port) = id.ok().and_then(|id| self.ports.get_mut(&id)) {
                        port.set_due();
                    }
                }
            }
        }
        Ok(is_called)
    }

    fn recv_from_ports(&mut self) {
        for (&socket, port) in &mut self.ports {
            if !port.is_due() {
                continue;
            }
            match port.send_stalled(&self.poller) {
                Sent::Yes => {}
                Sent::Dropped => self.counters.send_drops += 1,
                Sent::TooBig(refused) => self.site.handle_refused(&refused, Instant::now()),
                Sent::SourceGone(gone) => self.site.handle_source_gone(&gone),
            }
            for _ in 0..READS_PER_TURN {
                let now = Instant::now();
                let mut joined = port.joined;
                let mut refused = self.site.refusals().of_strangers();
                let received = port.recv(&mut self.received, |meta, datagram| {
                    let origin = DatagramOrigin {
                        socket,
                        local_ip: meta.local_ip,
                        remote: meta.remote,
                        ecn: meta.ecn,
                    };
                    self.site.handle_datagram(datagram, &origin, now);
                    let before = mem::replace(&mut refused, self.site.refusals().of_strangers());
                    joined.note(meta.remote, meta.was_joined, refused != before);
                });
                port.joined = joined;
                port.judge_joined(now);
                match received {
                    Some(Ok(count)) => self.counters.batches.udp_received.add(1, count),
                    Some(Err(error)) => {
                        tracing::debug!(%error, socket = socket.0, "cannot receive");
                        break;
                    }
                    None => break,
                }
                // While they are in the processor's cache.
                self.interface.deliver(&mut self.site, true);
            }
            self.interface.deliver(&mut self.site, false);
        }
    }

    fn handle_timeout(&mut self) {
        let Some(at) = self.site.poll_timeout() else { return };
        let now = Instant::now();
        if at <= now {
            self.site.handle_timeout(now);
        }
    }

    /// Carries out what the engine asks for.
    fn flush(&mut self) {
        self.interface.deliver(&mut self.site, false);
        let now = Instant::now();
        while let Some(transmit) = self.site.poll_transmit(&mut self.batch, now) {
            self.counters.batches.udp_sent.add(1, transmit.segments);
            let port = self.ports.get_mut(&transmit.socket);
            let sent = port.map(|port| port.send(transmit, self.batch.contents(), &self.poller));
            match sent {
                Some(Sent::Yes) => {}
                Some(Sent::Dropped) | None => self.counters.send_drops += 1,
                // Probes of the datagram size end so, too: that is no loss.
                Some(Sent::TooBig(refused)) => self.site.handle_refused(&refused, now),
                Some(Sent::SourceGone(gone)) => self.site.handle_source_gone(&gone),
            }
        }
        self.interface.deliver(&mut self.site, false);
        while let Some((connection, message)) = self.site.poll_message() {
            self.notify(Notice::Message(connection, message));
        }
        self.poll_events();
    }

    /// Moves bytes between streams and the connections that are ended here.
    fn carry_streams(&mut self) {
        if self.splits.is_none() {
            return;
        }
        self.poll_events();
        if let Some(splits) = &mut self.splits {
            splits.turn(&mut self.site, &mut self.interface, &self.poller, Instant::now());
        }
    }

    fn poll_events(&mut self) {
        while let Some(event) = self.site.poll_event() {
            if let Event::Stream { peer, stream, event } = event {
                self.on_stream(peer, stream, event);
            } else {
                self.tell(event);
            }
        }
    }

    fn on_stream(&mut self, peer: PeerId, stream: StreamId, event: StreamEvent) {
        let now = Instant::now();
        if let Some(splits) = &mut self.splits {
            splits.on_event((peer, stream), event, &mut self.site, &self.poller, now);
        } else if let StreamEvent::Opened(_) = event {
            splits::answer(&mut self.site, (peer, stream), StreamOutcome::Prohibited, now);
        }
    }

    /// Tells an event. Those that only inform are dropped while too many wait: a peer that keeps changing its
    /// address must not fill our memory. All others answer something that the control side has done itself.
    fn tell(&self, event: Event) {
        match event {
            Event::PathChanged { peer, path, .. }
            | Event::PathOpened { peer, path }
            | Event::BatchesLost { peer, path }
            | Event::PathMoved { peer, path } => {
                let label = self.site.path_label(peer, path);
                let (path, remote) = label.map(|(name, remote)| (name.to_owned(), remote)).unzip();
                // A full queue is the reason to drop it.
                let _ = self.links.news.try_send(News { event, path, remote });
            }
            Event::Dial(_)
            | Event::Hangup(_)
            | Event::Connected { .. }
            | Event::Closed { .. }
            | Event::KeysEnded { .. }
            | Event::GatewayChanged { .. }
            | Event::Measured { .. }
            | Event::Counts { .. }
            | Event::HopWanted { .. }
            | Event::Stream { .. }
            | Event::PathForgotten { .. } => self.notify(Notice::Event(event)),
        }
    }

    fn notify(&self, notice: Notice) {
        // The control side has gone only if the daemon is ending.
        let _ = self.links.notices.send(notice);
    }
}
