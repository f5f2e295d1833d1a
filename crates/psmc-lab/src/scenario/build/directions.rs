//! The directions of a link: what the file gives, and what it leaves out.

use std::time::Duration;

use psmc_sim::link::{Discipline, LinkConfig, QueueLimit, Rate};
use psmc_toml::Complaint;

use crate::scenario::draft::{DisciplineDraft, LinkDraft, LinkSettings, RedDraft};

/// Both directions of a link at the beginning.
pub(super) fn of_link(draft: &LinkDraft, out: &mut Vec<Complaint>) -> [LinkConfig; 2] {
    let both = &draft.settings;
    let settings =
        draft.directions.each_ref().map(|one| one.as_ref().map_or(both.clone(), |one| one.or(both)));
    let round_trip = settings.iter().map(|settings| settings.delay.unwrap_or_default()).sum();
    for given in [Some(&draft.settings), draft.directions[0].as_ref(), draft.directions[1].as_ref()] {
        // What stands for both directions can be of use in one of them.
        let unused = settings.iter().all(|settings| settings.rate.is_none());
        if let Some(given) = given.filter(|_| unused) {
            complain_of_idle_queue(given, out);
        }
    }
    settings.map(|settings| initial(&settings, round_trip))
}

/// A direction after `settings` were changed. What is not among them stays, the length of the queue too.
pub(super) fn changed(config: &LinkConfig, settings: &LinkSettings) -> LinkConfig {
    let mut config = config.clone();
    apply(&mut config, settings);
    config
}

/// Complains about a queue, or a discipline for it, that will always be empty.
pub(super) fn complain_of_idle_queue(given: &LinkSettings, out: &mut Vec<Complaint>) {
    let discipline =
        given.discipline.as_ref().filter(|kind| !matches!(kind.get_ref(), DisciplineDraft::DropTail));
    let places = [given.queue.as_ref().map(|queue| queue.span()), discipline.map(|kind| kind.span())];
    for place in places.into_iter().flatten() {
        let complaint = Complaint::new(
            "nothing queues on a link without a rate",
            r#"add rate = "50mbit", or remove this"#,
        );
        out.push(complaint.at(place));
    }
}

fn initial(settings: &LinkSettings, round_trip: Duration) -> LinkConfig {
    let rate = settings.rate.clone().unwrap_or_default();
    let mut config = LinkConfig {
        mtu: Some(DEFAULT_MTU),
        queue: default_queue(&rate, round_trip),
        ..LinkConfig::default()
    };
    apply(&mut config, settings);
    config
}

fn apply(config: &mut LinkConfig, settings: &LinkSettings) {
    let given = settings.clone();
    set(&mut config.rate, given.rate);
    set(&mut config.delay, given.delay);
    set(&mut config.jitter, given.jitter);
    set(&mut config.reordering, given.reordering);
    set(&mut config.reorder, given.reorder);
    set(&mut config.loss, given.loss);
    set(&mut config.duplicate, given.duplicate);
    set(&mut config.corrupt, given.corrupt);
    set(&mut config.queue, given.queue.map(toml::Spanned::into_inner));
    set(&mut config.mtu, given.mtu.map(Some));
    let discipline = given.discipline.map(|draft| discipline(draft.get_ref(), config));
    set(&mut config.discipline, discipline);
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// What Ethernet carries.
const DEFAULT_MTU: usize = 1500;

/// The length of a full-size packet, by which queues of packets are told from queues of bytes.
const FULL_SIZE: u64 = 1500;

/// One bandwidth-delay product.
fn default_queue(rate: &Rate, round_trip: Duration) -> QueueLimit {
    rate_of(rate)
        .map_or_else(QueueLimit::default, |bits| QueueLimit::bandwidth_delay_product(bits, round_trip))
}

/// Bits per second, on average; `None` without a limit.
fn rate_of(rate: &Rate) -> Option<u64> {
    match rate {
        Rate::Unlimited => None,
        Rate::Fixed(bits) => Some(*bits),
        Rate::Trace(trace) => Some(trace.mean_rate()),
    }
}

fn bytes_within(bits_per_second: u64, time: Duration) -> u64 {
    let bits = u128::from(bits_per_second) * time.as_nanos() / 1_000_000_000;
    u64::try_from(bits / 8).unwrap_or(u64::MAX)
}

fn discipline(draft: &DisciplineDraft, config: &LinkConfig) -> Discipline {
    match draft {
        DisciplineDraft::DropTail => Discipline::DropTail,
        DisciplineDraft::CoDel { target, interval, ecn } => {
            Discipline::CoDel { target: *target, interval: *interval, ecn: *ecn }
        }
        DisciplineDraft::Red(red) => self::red(red, queue_bytes(config)),
    }
}

/// RED by the rule of its authors: `max` at half of the queue unless it is given, and three times `min`.
fn red(draft: &RedDraft, queue: u64) -> Discipline {
    let (min, max) = match (draft.min, draft.max) {
        (Some(min), Some(max)) => (min, max),
        (Some(min), None) => (min, min.saturating_mul(3)),
        (None, Some(max)) => (max / 3, max),
        (None, None) => (queue / 6, queue / 2),
    };
    let bytes = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
    Discipline::Red {
        min_bytes: bytes(min),
        max_bytes: bytes(max.max(min + 1)),
        max_probability: draft.probability,
        weight: draft.weight,
        ecn: draft.ecn,
    }
}

fn queue_bytes(config: &LinkConfig) -> u64 {
    match config.queue {
        QueueLimit::Packets(packets) => (packets as u64).saturating_mul(FULL_SIZE),
        QueueLimit::Bytes(bytes) => bytes as u64,
        QueueLimit::Time(time) => rate_of(&config.rate).map_or(0, |bits| bytes_within(bits, time)),
    }
}
