//! Sites that become peers by an invitation, while this one runs.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use jiff::Timestamp;
use psmc_net::keys::PublicKey;
use psmc_net::tls::{AllowedKeys, Secured};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::spawn_blocking;

use super::DaemonError;
use super::control::Control;
use super::peers::EnterError;
use super::relays::BoxedStream;
use super::tasks::{TaskEnd, Tasks};
use crate::config::{self, Files, Invitation, SaveError};
use crate::enrolment::{Admission, Answer, answer, hear};
use crate::error_chain;
use psmc_api::{InvitationStatus, PeerSpec};

/// Who may become a peer, and who has, so that whoever did not hear of it can ask again.
#[derive(Debug)]
pub(super) struct Invitations {
    open: Vec<Invitation>,
    used: Vec<Used>,
    /// The keys of both.
    allowed: AllowedKeys,
}

/// An invitation that was used.
#[derive(Debug)]
struct Used {
    invitation: PublicKey,
    expires: Timestamp,
    /// The new peer's key, and what it was told.
    key: PublicKey,
    admission: Admission,
}

/// Somebody who has shown an invitation, and wants to be known by a key of its own.
pub(super) struct Applicant {
    stream: BoxedStream,
    invitation: PublicKey,
    key: PublicKey,
    from: String,
}

/// An applicant of whom the configuration has been told, or can't be.
pub(super) struct Enrolment {
    applicant: Applicant,
    invitation: Invitation,
    peer: config::Peer,
    saved: Result<(), NotSaved>,
}

/// Why the configuration does not have a new peer.
#[derive(Debug, thiserror::Error)]
enum NotSaved {
    /// Its files can't be written.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// They are written as no program can change them.
    #[error("the configuration has its peers in brackets, where none can be added")]
    Brackets,
    /// A bug.
    #[error("writing the configuration has failed; the log says why")]
    Died,
}

impl Invitations {
    /// Those of the configuration.
    pub(super) fn new(open: Vec<Invitation>) -> Self {
        let mut this = Self { open: Vec::new(), used: Vec::new(), allowed: AllowedKeys::default() };
        this.replace(open);
        this
    }

    /// The keys that are let in.
    pub(super) fn allowed(&self) -> AllowedKeys {
        self.allowed.clone()
    }

    /// Takes those of the configuration as it is now. Returns whether they are others than before.
    pub(super) fn replace(&mut self, open: Vec<Invitation>) -> bool {
        let is_changed = self.open != open;
        self.open = open;
        self.let_in();
        is_changed
    }

    /// How they stand, for people.
    pub(super) fn statuses(&self) -> Vec<InvitationStatus> {
        let now = Timestamp::now();
        let status = |invitation: &Invitation| InvitationStatus {
            name: invitation.name.to_string(),
            allowed_ips: invitation.allowed_ips.iter().map(ToString::to_string).collect(),
            expires: invitation.expires.to_string(),
            expired: invitation.expires <= now,
        };
        self.open.iter().map(status).collect()
    }

    /// The invitation that this key uses now, taken out so that nobody else does; or what to answer.
    fn take(
        &mut self,
        invitation: &PublicKey,
        key: &PublicKey,
        now: Timestamp,
    ) -> Result<Invitation, Answer> {
        if let Some(used) = self.used.iter().find(|used| used.invitation == *invitation) {
            return Err(if used.key == *key {
                Answer::Admitted(used.admission.clone())
            } else {
                refused("the invitation was used already; ask for another one")
            });
        }
        let position = self.open.iter().position(|open| open.public_key == *invitation);
        let Some(position) = position else {
            return Err(refused("the invitation is being used, or was withdrawn; ask for another one"));
        };
        let expires = self.open[position].expires;
        if expires <= now {
            return Err(refused(&format!("the invitation expired at {expires}; ask for another one")));
        }
        Ok(self.open.remove(position))
    }

    /// An invitation that was not used after all.
    fn put_back(&mut self, invitation: Invitation) {
        // The configuration may have been read meanwhile.
        if !self.open.iter().any(|open| open.public_key == invitation.public_key) {
            self.open.push(invitation);
        }
    }

    fn note_used(&mut self, used: Used, now: Timestamp) {
        self.open.retain(|open| open.public_key != used.invitation);
        self.used.retain(|used| used.expires > now);
        self.used.push(used);
        self.let_in();
    }

    fn let_in(&self) {
        let open = self.open.iter().map(|open| open.public_key);
        self.allowed.replace(open.chain(self.used.iter().map(|used| used.invitation)).collect());
    }
}

impl Control {
    /// Hears out who has called with an invitation, in a task of its own.
    pub(super) fn hear_applicant<S>(&mut self, secured: Secured<S>, from: &str)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (host, invitation, from) = (self.identity.public(), secured.peer, from.to_owned());
        let mut stream: BoxedStream = Box::new(secured.stream);
        self.tasks.spawn(async move {
            let heard = hear(&mut stream, &host, &invitation).await;
            TaskEnd::Applied(match heard {
                Ok(key) => Some(Box::new(Applicant { stream, invitation, key, from })),
                Err(error) => {
                    tracing::info!(from, error = error_chain(&error), "an invited site has not joined");
                    None
                }
            })
        });
    }

    /// Has the configuration written with the new peer in it, or says why that is not to be.
    pub(super) fn on_applied(&mut self, applicant: Applicant) {
        let taken = self.invitations.take(&applicant.invitation, &applicant.key, Timestamp::now());
        let invitation = match taken {
            Ok(invitation) => invitation,
            Err(answer) => return respond(&mut self.tasks, applicant, answer),
        };
        let spec = PeerSpec {
            name: invitation.name.to_string(),
            public_key: applicant.key.to_string(),
            allowed_ips: invitation.allowed_ips.iter().map(ToString::to_string).collect(),
            endpoint: None,
        };
        let peer = match self.checked(&spec) {
            Ok(peer) => peer,
            Err(error) => return self.refuse(applicant, invitation, &error.to_string()),
        };
        let file = self.file.path().to_owned();
        let key = invitation.public_key.to_string();
        self.tasks.spawn(async move {
            let saved = spawn_blocking(move || save(&file, &key, &spec)).await;
            let saved = saved.unwrap_or(Err(NotSaved::Died));
            TaskEnd::Enrolled(Box::new(Enrolment { applicant, invitation, peer, saved }))
        });
    }

    /// Takes the new peer in, which the configuration has by now.
    pub(super) async fn on_enrolled(&mut self, enrolment: Enrolment) -> Result<(), DaemonError> {
        let Enrolment { applicant, invitation, peer, saved } = enrolment;
        if let Err(error) = saved {
            self.refuse(applicant, invitation, &error_chain(&error));
            return Ok(());
        }
        // Whoever has had the file read meanwhile has it already.
        let is_new = !self.peers.iter().any(|known| known.config.public_key == peer.public_key);
        if is_new {
            match self.enter_peer(peer, false).await {
                Ok(()) => {}
                Err(EnterError::Daemon(error)) => return Err(error),
                Err(error) => {
                    self.refuse(applicant, invitation, &error_chain(&error));
                    return Ok(());
                }
            }
            self.network.steer_now(&self.site, &self.peers).await;
        }
        let admission = self.admission(&invitation);
        let (from, key) = (&applicant.from, applicant.key);
        tracing::info!(peer = %invitation.name, from, %key, "peer joined by an invitation");
        let used = Used {
            invitation: invitation.public_key,
            expires: invitation.expires,
            key,
            admission: admission.clone(),
        };
        self.invitations.note_used(used, Timestamp::now());
        respond(&mut self.tasks, applicant, Answer::Admitted(admission));
        Ok(())
    }

    fn admission(&self, invitation: &Invitation) -> Admission {
        let around = self.site.addresses.iter().map(IpNet::trunc);
        let behind = self.site.networks.iter().map(|network| network.net());
        let mut networks: Vec<_> = around.chain(behind).collect();
        if self.site.internet.is_offered {
            let versions: BTreeSet<_> = self.site.addresses.iter().map(default_route).collect();
            networks.extend(versions);
        }
        let (host, addresses) = (self.site.name.to_string(), invitation.addresses(&self.site.addresses));
        Admission { host, addresses, networks }
    }

    fn refuse(&mut self, applicant: Applicant, invitation: Invitation, why: &str) {
        let (peer, from) = (&invitation.name, &applicant.from);
        tracing::warn!(%peer, from, error = why, "an invited site cannot be added");
        let message = format!("{} cannot add this site as its peer: {why}", self.site.name);
        self.invitations.put_back(invitation);
        respond(&mut self.tasks, applicant, refused(&message));
    }
}

/// All addresses of the version that this one has.
fn default_route(address: &IpNet) -> IpNet {
    let unspecified: IpAddr = match address {
        IpNet::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpNet::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    IpNet::new_assert(unspecified, 0)
}

/// Answers an applicant, in a task of its own.
fn respond(tasks: &mut Tasks, applicant: Applicant, response: Answer) {
    let Applicant { mut stream, from, .. } = applicant;
    tasks.spawn(async move {
        if let Err(error) = answer(&mut stream, &response).await {
            tracing::info!(from, error = error_chain(&error), "an invited site has not heard the answer");
        }
        TaskEnd::Answered
    });
}

fn refused(message: &str) -> Answer {
    Answer::Refused { message: message.to_owned() }
}

/// Writes the new peer into the configuration, in the place of its invitation.
fn save(file: &std::path::Path, invitation: &str, peer: &PeerSpec) -> Result<(), NotSaved> {
    let mut files = Files::open(file)?;
    files.remove_invitations(|_, key| key == invitation)?;
    if !files.add_peer(peer)? {
        return Err(NotSaved::Brackets);
    }
    Ok(files.save()?)
}
