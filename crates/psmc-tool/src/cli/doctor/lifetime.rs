//! The kind of each NAT, and how long it remembers a socket that rests: asked from sockets of their own, so that no path is
//! disturbed.
//!
//! Each socket is made known to the far end over psmcd's control connection, and asks twice, two seconds apart, so that a NAT takes
//! it for one that talks. Then it rests, each for another time, and at the end of that the far end is told over the
//! control connection to send one datagram more. All rest at the same time.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use psmc_api::{Client, ClientError, NatProbe, NatProbeStep, Request};
use psmc_net::keys::random_seed;
use psmc_net::udp::bind_udp;
use psmc_wire::probe::{PROBE_LEN, ProbeTokens};
use serde::Serialize;

use super::nat::View;

/// How long sockets rest, in parts of [`WHOLE`]. NATs forget after 30 s, 60 s or 120 s as a rule (RFC 4787 REQ-5 asks for 120 s).
const RESTS: [u32; 9] = [10, 15, 20, 25, 35, 50, 70, 130, 180];
const WHOLE: u32 = 180;

/// Linux takes a flow that is answered later than this for a stream, and remembers it for longer.
const TALK_TIME: Duration = Duration::from_millis(2500);

/// An answer is waited for so long, so many times.
const ANSWER_TIME: Duration = Duration::from_secs(1);
const TRIES: usize = 3;

/// Between two looks at the sockets.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Far ends that one socket asks: two are enough to tell kinds apart, and some may not answer.
const MAX_FAR_ENDS: usize = 4;

/// Uplinks that are asked about: the far end answers 64 probes at a time.
const MAX_UPLINKS: usize = 4;

/// How long a socket that rested was remembered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Memory {
    /// The longest rest after which the far end still reached it, in seconds; 0 if none.
    pub(super) reached_s: f64,
    /// The shortest after which it did not; absent if it always did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lost_s: Option<f64>,
}

/// What was found out about an uplink.
#[derive(Debug)]
pub(super) struct Found {
    /// Its name and address.
    pub(super) uplink: (String, IpAddr),
    pub(super) memory: Memory,
}

/// What asking has told.
pub(super) struct Told {
    /// How sockets were seen.
    pub(super) views: Vec<View>,
    /// How long they were remembered.
    pub(super) found: Vec<Found>,
    /// What could not be asked, and why.
    pub(super) unseen: Vec<String>,
}

/// An uplink to be asked about.
#[derive(Debug)]
struct Uplink {
    interface: Option<String>,
    name: String,
    local: IpAddr,
    /// The far ends, and whose they are.
    far: Vec<(SocketAddr, String)>,
    memory: Memory,
    /// How long the last socket had rested, if it was reached no longer.
    missed_s: Option<f64>,
    is_over: bool,
}

/// What became of a socket that rested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The far end reached it.
    Reached,
    /// Only after it had asked again.
    Missed,
    /// Not even then: something else has happened on the way, or to the connection by which the far end is told.
    Silent,
}

impl Uplink {
    /// Takes down what became of a socket that was silent for so long when the far end first, and last, tried to reach it. Two in
    /// succession have to be missed before the NAT is said to forget: one may be for another reason.
    fn note(&mut self, outcome: Outcome, (first, last): (Duration, Duration)) -> String {
        let [first, last] = [first, last].map(|silence| silence.as_secs_f64());
        let what = match outcome {
            Outcome::Reached => {
                (self.memory.reached_s, self.missed_s) = (first, None);
                format!("that has rested for {first:.0} s is still reached")
            }
            Outcome::Missed => {
                self.is_over = self.missed_s.is_some();
                self.memory.lost_s = self.missed_s;
                self.missed_s = self.missed_s.or(Some(last));
                format!("that has rested for {last:.0} s is reached no longer")
            }
            Outcome::Silent => {
                self.is_over = true;
                "has no answer any more, whatever it asks".to_owned()
            }
        };
        format!("{}: a socket {what}", self.name)
    }
}

/// A socket's question to a far end.
#[derive(Debug)]
struct Question {
    uplink: usize,
    socket: usize,
    tokens: ProbeTokens,
    to: (SocketAddr, String),
    /// For how long it rests, if that is what it is for.
    rest: Option<Duration>,
    asked_at: Instant,
    answer: Option<SocketAddr>,
}

/// All sockets and questions.
pub(super) struct Lifetimes<'a> {
    client: &'a mut Client,
    uplinks: Vec<Uplink>,
    sockets: Vec<UdpSocket>,
    questions: Vec<Question>,
}

impl<'a> Lifetimes<'a> {
    /// Asks about the uplinks of these views.
    pub(super) fn new(views: &[View], client: &'a mut Client) -> Self {
        let mut uplinks: Vec<Uplink> = Vec::new();
        for view in views {
            let same = |uplink: &&mut Uplink| uplink.name == view.uplink && uplink.local == view.local.ip();
            if let Some(uplink) = uplinks.iter_mut().find(same) {
                let is_known = uplink.far.iter().any(|(far, _)| *far == view.far);
                if !is_known && uplink.far.len() < MAX_FAR_ENDS {
                    uplink.far.push((view.far, view.by.clone()));
                }
            } else if uplinks.len() < MAX_UPLINKS {
                uplinks.push(Uplink {
                    interface: view.interface.clone(),
                    name: view.uplink.clone(),
                    local: view.local.ip(),
                    far: vec![(view.far, view.by.clone())],
                    memory: Memory { reached_s: 0.0, lost_s: None },
                    missed_s: None,
                    is_over: false,
                });
            }
        }
        Self { client, uplinks, sockets: Vec::new(), questions: Vec::new() }
    }

    /// Asks all of it, and tells `progress` what is known so far.
    ///
    /// # Errors
    /// If the daemon does not answer any more.
    pub(super) fn ask(
        mut self,
        longest: Duration,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Told, ClientError> {
        let mut unseen = self.open(longest);
        self.announce(NatProbeStep::Open, |_| true)?;
        self.exchange(|_| true);
        for uplink in 0..self.uplinks.len() {
            unseen.extend(self.settle(uplink));
        }
        let views = self.views();
        sleep(TALK_TIME);
        self.questions.iter_mut().for_each(|question| question.answer = None);
        self.exchange(|_| true);
        for share in RESTS {
            if self.uplinks.iter().all(|uplink| uplink.is_over) {
                break;
            }
            unseen.extend(self.await_rest(longest * share / WHOLE, progress)?);
        }
        self.announce(NatProbeStep::End, |_| true)?;
        let is_asked = |uplink: &Uplink| uplink.memory.reached_s > 0.0 || uplink.memory.lost_s.is_some();
        let asked = self.uplinks.into_iter().filter(is_asked);
        let found = asked.map(|uplink| Found { uplink: (uplink.name, uplink.local), memory: uplink.memory });
        Ok(Told { views, found: found.collect(), unseen })
    }

    /// Opens the sockets: one that asks all far ends, and one for each rest.
    fn open(&mut self, longest: Duration) -> Vec<String> {
        let mut unseen = Vec::new();
        for at in 0..self.uplinks.len() {
            let rests = RESTS.iter().map(|share| Some(longest * *share / WHOLE));
            for rest in [None].into_iter().chain(rests) {
                if let Err(error) = self.open_socket(at, rest) {
                    let uplink = &mut self.uplinks[at];
                    uplink.is_over = true;
                    unseen.push(format!("the NAT over {}: cannot open a socket: {error}", uplink.name));
                    break;
                }
            }
        }
        unseen
    }

    fn open_socket(&mut self, at: usize, rest: Option<Duration>) -> io::Result<()> {
        let Uplink { interface, local, far, .. } = &self.uplinks[at];
        self.sockets.push(bind_udp(interface.as_deref(), *local)?);
        let asked = if rest.is_some() { 1 } else { far.len() };
        for to in far.iter().take(asked) {
            self.questions.push(Question {
                uplink: at,
                socket: self.sockets.len() - 1,
                tokens: new_tokens(),
                to: to.clone(),
                rest,
                asked_at: Instant::now(),
                answer: None,
            });
        }
        Ok(())
    }

    /// Tells the peers of these questions.
    fn announce(&mut self, step: NatProbeStep, which: impl Fn(&Question) -> bool) -> Result<(), ClientError> {
        for question in self.questions.iter().filter(|question| which(question)) {
            let ProbeTokens { question: asks, answer } = question.tokens;
            let probe = NatProbe { peer: question.to.1.clone(), step, question: asks, answer };
            match self.client.order(&Request::NatProbe(probe)) {
                // Its connection may have ended: then there is no answer.
                Ok(()) | Err(ClientError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends those of these questions that have no answer, and waits for answers.
    fn exchange(&mut self, which: impl Fn(&Question) -> bool) {
        for _ in 0..TRIES {
            for question in self.questions.iter_mut().filter(|it| it.answer.is_none() && which(it)) {
                question.asked_at = Instant::now();
                // What cannot be sent is not answered.
                let _ =
                    self.sockets[question.socket].send_to(&question.tokens.write_question(), question.to.0);
            }
            if self.receive(&which) {
                return;
            }
        }
    }

    /// Receives until these questions are answered, and says whether they are.
    fn receive(&mut self, which: impl Fn(&Question) -> bool) -> bool {
        let until = Instant::now() + ANSWER_TIME;
        loop {
            self.drain();
            let is_answered = |question: &Question| question.answer.is_some() || !which(question);
            if self.questions.iter().all(is_answered) {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            sleep(LOOK_INTERVAL);
        }
    }

    /// Takes what has arrived.
    fn drain(&mut self) {
        let mut datagram = [0; PROBE_LEN + 1];
        for (at, socket) in self.sockets.iter().enumerate() {
            while let Ok((length, _)) = socket.recv_from(&mut datagram) {
                for question in self.questions.iter_mut().filter(|question| question.socket == at) {
                    if let Ok(seen) = question.tokens.read_answer(&datagram[..length]) {
                        question.answer = Some(seen);
                    }
                }
            }
        }
    }

    /// An uplink on which sockets that rest have no answer is not asked about; says why.
    fn settle(&mut self, at: usize) -> Option<String> {
        let uplink = &mut self.uplinks[at];
        let mut resting = self.questions.iter().filter(|it| it.uplink == at && it.rest.is_some());
        if uplink.is_over || resting.any(|question| question.answer.is_some()) {
            return None;
        }
        uplink.is_over = true;
        let by = &uplink.far[0].1;
        Some(format!(
            "the NAT over {}: {by} does not answer: it may be of an older release, or hidden",
            uplink.name
        ))
    }

    /// How the sockets that ask all far ends are seen.
    fn views(&self) -> Vec<View> {
        let asking = self.questions.iter().filter(|question| question.rest.is_none());
        let view = |question: &Question| {
            let uplink = &self.uplinks[question.uplink];
            let local = self.sockets[question.socket].local_addr().ok()?;
            Some(View {
                uplink: uplink.name.clone(),
                interface: uplink.interface.clone(),
                local: SocketAddr::new(uplink.local, local.port()),
                far: question.to.0,
                seen: question.answer?,
                by: question.to.1.clone(),
            })
        };
        asking.filter_map(view).collect()
    }

    /// Waits until sockets have rested for so long, and has the far ends reach them. Says what could not be seen.
    fn await_rest(
        &mut self,
        rest: Duration,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Vec<String>, ClientError> {
        let over: Vec<_> = self.uplinks.iter().map(|uplink| uplink.is_over).collect();
        let is_due = |question: &Question| question.rest == Some(rest) && !over[question.uplink];
        let rested = self.questions.iter().filter(|it| is_due(it)).map(|it| it.asked_at + rest).max();
        let Some(rested) = rested else { return Ok(Vec::new()) };
        sleep(rested.saturating_duration_since(Instant::now()));
        // What has come late is no answer to what is asked here.
        self.drain();
        let due: Vec<_> = (0..self.questions.len()).filter(|&at| is_due(&self.questions[at])).collect();
        due.iter().for_each(|&at| self.questions[at].answer = None);
        let mut silences = Vec::new();
        for _ in 0..TRIES {
            silences.push(due.iter().map(|&at| self.questions[at].asked_at.elapsed()).collect::<Vec<_>>());
            self.announce(NatProbeStep::Answer, |question| is_due(question) && question.answer.is_none())?;
            if self.receive(is_due) {
                break;
            }
        }
        let was_reached: Vec<_> = due.iter().map(|&at| self.questions[at].answer.is_some()).collect();
        self.ask_again(is_due)?;
        let (first, last) = (silences.first().into_iter().flatten(), silences.last().into_iter().flatten());
        let mut unseen = Vec::new();
        for (((&at, was_reached), &first), &last) in due.iter().zip(was_reached).zip(first).zip(last) {
            let question = &self.questions[at];
            let outcome = match question.answer {
                Some(_) if was_reached => Outcome::Reached,
                Some(_) => Outcome::Missed,
                None => Outcome::Silent,
            };
            let note = self.uplinks[question.uplink].note(outcome, (first, last));
            progress(&note);
            unseen.extend((outcome == Outcome::Silent).then_some(note));
        }
        Ok(unseen)
    }

    /// Has those of these sockets that are reached no longer ask again, and the far ends told again, which reach them then if it
    /// was the rest that made the difference.
    fn ask_again(&mut self, which: impl Fn(&Question) -> bool) -> Result<(), ClientError> {
        let of_these = |it: &Question| it.answer.is_none() && which(it);
        let missed: Vec<_> = (0..self.questions.len()).filter(|&at| of_these(&self.questions[at])).collect();
        self.exchange(&which);
        let asked = missed.into_iter().filter(|&at| self.questions[at].answer.is_some()).collect::<Vec<_>>();
        // Answers to the order above may be late.
        self.drain();
        for &at in &asked {
            self.questions[at].answer = None;
            let question = self.questions[at].tokens.question;
            self.announce(NatProbeStep::Answer, |it| it.tokens.question == question)?;
        }
        if !asked.is_empty() {
            self.receive(&which);
        }
        Ok(())
    }
}

fn new_tokens() -> ProbeTokens {
    let seed = random_seed();
    let half = |from: usize| std::array::from_fn(|at| seed[from + at]);
    ProbeTokens { question: half(0), answer: half(16) }
}
