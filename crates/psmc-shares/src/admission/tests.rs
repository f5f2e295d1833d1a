use proptest::prelude::*;

use super::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn class(ratio: f64) -> ClassConfig {
    ClassConfig { ratio, ..ClassConfig::default() }
}

fn fixed(limits: &[u32]) -> Vec<ServerConfig> {
    limits
        .iter()
        .map(|&limit| ServerConfig { limit: LimitConfig::Fixed(limit), ..ServerConfig::default() })
        .collect()
}

fn front(classes: Vec<ClassConfig>, limits: &[u32]) -> Admission {
    Admission::new(Config { classes, servers: fixed(limits), ..Config::default() }, ms(0)).unwrap()
}

fn admitted(arrival: Arrival) -> Ticket {
    let Arrival::Admitted(ticket) = arrival else { panic!("admitted: {arrival:?}") };
    ticket
}

fn queued(arrival: Arrival) -> Handle {
    let Arrival::Queued(handle) = arrival else { panic!("queued: {arrival:?}") };
    handle
}

fn refused(arrival: Arrival) -> Refusal {
    let Arrival::Refused(refusal) = arrival else { panic!("refused: {arrival:?}") };
    refusal
}

fn ready(front: &mut Admission) -> (Handle, Ticket) {
    let Some(Ready::Admitted { handle, ticket }) = front.poll_ready() else { panic!("somebody is ready") };
    (handle, ticket)
}

#[test]
fn promises_that_cannot_be_kept_are_refused() {
    let refusal = |config: Config| Admission::new(config, ms(0)).unwrap_err().to_string();
    let classes = |classes| Config { classes, ..Config::default() };
    insta(&[
        (refusal(classes(Vec::new())), "there must be 1 to 64 classes, not 0"),
        (refusal(classes(vec![class(f64::NAN)])), "the ratio of class 0 must be from 0.001 to 1000, not NaN"),
        (
            refusal(classes(vec![ClassConfig { objective: Some(ms(0)), ..class(1.0) }])),
            "the objective of class 0 is no time",
        ),
        (refusal(Config { servers: fixed(&[1, 0]), ..Config::default() }), "the limit of server 1 is 0"),
        (refusal(Config { period: ms(0), ..Config::default() }), "the sampling period is no time"),
    ]);
}

fn insta(cases: &[(String, &str)]) {
    for (text, expected) in cases {
        assert_eq!(text, expected);
    }
}

#[test]
fn the_server_with_the_least_of_its_limit_in_use_is_next() {
    let mut front = front(vec![class(1.0)], &[1, 4]);
    let servers: Vec<usize> = (0..5).map(|_| admitted(front.arrive(ClassId(0), ms(0))).server().0).collect();
    assert_eq!(servers, [0, 1, 1, 1, 1]);
    queued(front.arrive(ClassId(0), ms(0)));
}

/// One server for the first class, one for both: the first class leaves room on the one that the second can have.
#[test]
fn classes_have_the_servers_that_are_for_them() {
    let of = |classes: &[usize]| ClassSet::of(classes.iter().copied().map(ClassId));
    let servers = [(2, of(&[0, 1])), (1, of(&[0]))];
    let servers = servers.map(|(limit, classes)| ServerConfig { limit: LimitConfig::Fixed(limit), classes });
    let config =
        Config { classes: vec![class(1.0), class(2.0)], servers: servers.into(), ..Config::default() };
    let mut front = Admission::new(config.clone(), ms(0)).unwrap();
    let own = admitted(front.arrive(ClassId(0), ms(0)));
    assert_eq!(own.server(), ServerId(1));
    let [one, two] = [0, 0].map(|at| admitted(front.arrive(ClassId(1), ms(at))));
    assert_eq!([one.server(), two.server()], [ServerId(0); 2]);
    let second = queued(front.arrive(ClassId(1), ms(1)));
    let first = queued(front.arrive(ClassId(0), ms(2)));
    // The place that is free is none for the second class, which has waited for longer.
    front.finish(own, Outcome::Answered, ms(50));
    let (handle, own) = ready(&mut front);
    assert_eq!((handle, own.server()), (first, ServerId(1)));
    // Without its server the second class is told, and the first is not.
    let first = queued(front.arrive(ClassId(0), ms(51)));
    front.set_available(ServerId(0), false, ms(52));
    let Some(Ready::Expired { handle, refusal }) = front.poll_ready() else { panic!("it waits in vain") };
    assert_eq!((handle, refusal.reason), (second, Reason::NoServer));
    assert!(front.poll_ready().is_none() && front.cancel(first, ms(53)));
    for ticket in [own, one, two] {
        front.finish(ticket, Outcome::Answered, ms(54));
    }
    let unserved = Config { servers: servers_of(&[0]), ..config };
    let error = Admission::new(unserved, ms(0)).unwrap_err().to_string();
    assert_eq!(error, "no server serves class 1");
}

fn servers_of(classes: &[usize]) -> Vec<ServerConfig> {
    vec![ServerConfig {
        classes: ClassSet::of(classes.iter().copied().map(ClassId)),
        ..ServerConfig::default()
    }]
}

/// What the first class is promised is no reason to refuse those that other servers are for.
#[test]
fn nobody_is_refused_for_a_class_that_shares_no_server() {
    let of = |class| ClassSet::of([ClassId(class)]);
    let servers = [0, 1].map(|class| ServerConfig { limit: LimitConfig::Fixed(1), classes: of(class) });
    let gold = ClassConfig { objective: Some(ms(40)), ..class(1.0) };
    let rest = ClassConfig { shed: true, ..class(3.0) };
    let config = Config { classes: vec![gold, rest], servers: servers.into(), ..Config::default() };
    let mut front = Admission::new(config, ms(0)).unwrap();
    // Ten milliseconds for each, by turns: the second class waits for longer than the first one's objective.
    let mut waiting = 0;
    for at in 0..200 {
        match front.arrive(ClassId(1), ms(at)) {
            Arrival::Admitted(ticket) => front.finish(ticket, Outcome::Answered, ms(at + 10)),
            Arrival::Queued(_) => waiting += 1,
            Arrival::Refused(refusal) => panic!("{refusal:?}"),
        }
    }
    let busy = admitted(front.arrive(ClassId(1), ms(3000)));
    for at in 0..100 {
        queued(front.arrive(ClassId(1), ms(3000 + at)));
    }
    front.finish(busy, Outcome::Answered, ms(3200));
    assert_eq!((waiting, front.snapshot(ms(3200)).firsts), (0, vec![0, 1]));
}

#[test]
fn who_has_hung_up_is_not_served_and_a_late_cancel_says_so() {
    let mut front = front(vec![class(1.0)], &[1]);
    let first = admitted(front.arrive(ClassId(0), ms(0)));
    let [gone, next] = [1, 2].map(|at| queued(front.arrive(ClassId(0), ms(at))));
    assert!(front.cancel(gone, ms(3)) && !front.cancel(gone, ms(3)));
    front.finish(first, Outcome::Answered, ms(4));
    assert!(!front.cancel(next, ms(4)), "it has a place by now");
    let (handle, ticket) = ready(&mut front);
    assert_eq!((handle, ticket.waited()), (next, ms(2)));
    front.finish(ticket, Outcome::Abandoned, ms(5));
    let counters = front.snapshot(ms(5)).classes[0].counters;
    let expected =
        Counters { arrived: 3, admitted: 2, answered: 1, abandoned: 1, cancelled: 1, ..Counters::default() };
    assert_eq!(counters, expected);
    drop(admitted(front.arrive(ClassId(0), ms(6))));
}

#[test]
fn what_a_server_has_failed_comes_first_and_goes_elsewhere() {
    let mut front = front(vec![class(1.0)], &[1, 1]);
    let [one, two] = [0, 0].map(|at| admitted(front.arrive(ClassId(0), ms(at))));
    let waits = queued(front.arrive(ClassId(0), ms(1)));
    front.finish(two, Outcome::Answered, ms(2));
    let (handle, three) = ready(&mut front);
    assert_eq!((handle, three.server()), (waits, ServerId(1)));
    let again = admitted(front.retry(one, ms(3)));
    assert_eq!(again.server(), ServerId(0), "no other has room");
    front.finish(three, Outcome::Answered, ms(4));
    assert_eq!(admitted(front.retry(again, ms(5))).server(), ServerId(1));
}

#[test]
fn without_a_server_everybody_is_told() {
    let mut front = front(vec![class(1.0)], &[1]);
    let ticket = admitted(front.arrive(ClassId(0), ms(0)));
    let waits = queued(front.arrive(ClassId(0), ms(0)));
    front.set_available(ServerId(0), false, ms(1));
    let Some(Ready::Expired { handle, refusal }) = front.poll_ready() else { panic!("it waits in vain") };
    assert_eq!((handle, refusal.reason), (waits, Reason::NoServer));
    assert_eq!(refused(front.arrive(ClassId(0), ms(1))).reason, Reason::NoServer);
    assert_eq!(refused(front.arrive(ClassId(7), ms(1))).reason, Reason::UnknownClass);
    assert_eq!(refused(front.retry(ticket, ms(2))).reason, Reason::NoServer);
    front.set_available(ServerId(0), true, ms(3));
    drop(admitted(front.arrive(ClassId(0), ms(3))));
}

#[test]
fn queues_are_bounded_by_class() {
    let short = |ratio| ClassConfig { max_waiting: 1, ..class(ratio) };
    let mut front = front(vec![short(1.0), short(2.0)], &[1]);
    let _ticket = admitted(front.arrive(ClassId(0), ms(0)));
    for of in [0, 1] {
        queued(front.arrive(ClassId(of), ms(0)));
        assert_eq!(refused(front.arrive(ClassId(of), ms(0))).reason, Reason::QueueFull);
    }
}

/// A server of one place that takes ten milliseconds for each request, and one comes every so often of each class.
fn play(front: &mut Admission, every: &[u64], until: u64) {
    let mut busy: Option<(Ticket, u64)> = None;
    for at in 0..until {
        if let Some((ticket, _)) = busy.take_if(|(_, end)| *end == at) {
            front.finish(ticket, Outcome::Answered, ms(at));
        }
        if ms(at) >= front.next_tick() {
            front.tick(ms(at));
        }
        for (place, every) in every.iter().enumerate() {
            if at % every == 0
                && let Arrival::Admitted(ticket) = front.arrive(ClassId(place), ms(at))
            {
                busy = Some((ticket, at + 10));
            }
        }
        while let Some(ready) = front.poll_ready() {
            if let Ready::Admitted { ticket, .. } = ready {
                busy = Some((ticket, at + 10));
            }
        }
    }
    if let Some((ticket, _)) = busy {
        front.finish(ticket, Outcome::Abandoned, ms(until));
    }
}

#[test]
fn who_would_wait_too_long_is_refused_and_a_better_class_keeps_its_objective() {
    let gold = ClassConfig { objective: Some(ms(100)), ..class(1.0) };
    let rest = ClassConfig { shed: true, ..class(3.0) };
    let mut front = front(vec![gold, rest], &[1]);
    // Twice what the server can do: half of that of the first class.
    play(&mut front, &[20, 7], 20_000);
    let snapshot = front.snapshot(ms(20_000));
    let [gold, rest] = [0, 1].map(|class| snapshot.classes[class]);
    assert_eq!(gold.counters.refused + gold.counters.expired, 0);
    assert!(gold.last.unwrap().response < ms(100), "{gold:?}");
    assert!(rest.counters.refused > 1500 && rest.counters.answered > 900, "{rest:?}");
    assert!(rest.last.unwrap().response < ms(300), "nobody waits in vain: {rest:?}");
    assert!(refused_for(&mut front, 20_000) >= LEAST_RETRY);
}

fn refused_for(front: &mut Admission, at: u64) -> Duration {
    let refusal = (0..200).find_map(|_| match front.arrive(ClassId(1), ms(at)) {
        Arrival::Refused(refusal) => Some(refusal.retry_after),
        Arrival::Admitted(_) | Arrival::Queued(_) => None,
    });
    refusal.unwrap()
}

#[test]
fn ratios_are_held_where_they_can_be_and_told_where_not() {
    let config = |idling| Config {
        classes: vec![class(1.0), class(3.0)],
        servers: fixed(&[1]),
        idling,
        ..Config::default()
    };
    let state = |idling, every: &[u64]| {
        let mut front = Admission::new(config(idling), ms(0)).unwrap();
        play(&mut front, every, 60_000);
        front.snapshot(ms(60_000)).ratios[0]
    };
    let told = state(false, &[50, 70]);
    let reason = Infeasible::LightLoad;
    assert!(matches!(told, RatioState::Infeasible { reason: told, .. } if told == reason), "{told:?}");
    let told = state(true, &[50, 70]);
    assert!(
        matches!(told, RatioState::Held { ratio: Some(ratio) } if (2.7..3.3).contains(&ratio)),
        "{told:?}"
    );
    let told = state(false, &[50, 30_000]);
    let reason = Infeasible::TooFewSamples;
    assert!(matches!(told, RatioState::Infeasible { reason: told, .. } if told == reason), "{told:?}");
}

#[test]
fn another_configuration_keeps_who_waits_unless_classes_come_or_go() {
    let mut front = front(vec![class(1.0), class(2.0)], &[1]);
    let ticket = admitted(front.arrive(ClassId(0), ms(0)));
    let waits = queued(front.arrive(ClassId(1), ms(0)));
    let config = |ratios: &[f64], limits: &[u32]| {
        let classes = ratios.iter().map(|&ratio| class(ratio)).collect();
        Config { classes, servers: fixed(limits), ..Config::default() }
    };
    assert!(front.reconfigure(config(&[], &[1]), ms(1)).is_err());
    front.reconfigure(config(&[1.0, 3.0], &[1]), ms(1)).unwrap();
    assert!(front.poll_ready().is_none());
    front.reconfigure(config(&[1.0], &[1]), ms(2)).unwrap();
    assert!(matches!(front.poll_ready(), Some(Ready::Expired { handle, .. }) if handle == waits));
    assert!(!front.cancel(waits, ms(3)));
    let waits = queued(front.arrive(ClassId(0), ms(3)));
    front.finish(ticket, Outcome::Answered, ms(4));
    assert_eq!(ready(&mut front).0, waits);
    assert_eq!(front.snapshot(ms(4)).classes[0].counters.answered, 0, "that was another class");
}

#[derive(Clone, Debug)]
enum Step {
    Arrive(usize),
    Finish(usize, Outcome),
    Retry(usize),
    Cancel(usize),
    Available(usize, bool),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![Just(Outcome::Answered), Just(Outcome::Failed), Just(Outcome::Abandoned)];
    prop_oneof![
        6 => (0..4usize).prop_map(Step::Arrive),
        5 => (any::<usize>(), outcome).prop_map(|(which, outcome)| Step::Finish(which, outcome)),
        1 => any::<usize>().prop_map(Step::Retry),
        2 => any::<usize>().prop_map(Step::Cancel),
        1 => (0..3usize, any::<bool>()).prop_map(|(server, is)| Step::Available(server, is)),
        3 => (0..200u64).prop_map(Step::Wait),
    ]
}

/// Who has a ticket and who waits, beside a machine whose promises are looked at after each step.
struct Beside {
    front: Admission,
    tickets: Vec<Ticket>,
    waiting: Vec<Handle>,
    available: [bool; 3],
    serving: [ClassSet; 3],
}

impl Beside {
    fn take(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Admitted(ticket) => self.tickets.push(ticket),
            Arrival::Queued(handle) => self.waiting.push(handle),
            Arrival::Refused(_) => {}
        }
    }

    fn play(&mut self, step: &Step, now: &mut Duration) {
        match *step {
            Step::Arrive(class) => {
                let arrival = self.front.arrive(ClassId(class), *now);
                self.take(arrival);
            }
            Step::Finish(which, outcome) if !self.tickets.is_empty() => {
                let ticket = self.tickets.swap_remove(which % self.tickets.len());
                self.front.finish(ticket, outcome, *now);
            }
            Step::Retry(which) if !self.tickets.is_empty() => {
                let ticket = self.tickets.swap_remove(which % self.tickets.len());
                let arrival = self.front.retry(ticket, *now);
                self.take(arrival);
            }
            Step::Cancel(which) if !self.waiting.is_empty() => {
                let handle = self.waiting.swap_remove(which % self.waiting.len());
                assert!(self.front.cancel(handle, *now), "it waits");
            }
            Step::Finish(..) | Step::Retry(_) | Step::Cancel(_) => {}
            Step::Available(server, is_available) => {
                self.available[server] = is_available;
                self.front.set_available(ServerId(server), is_available, *now);
            }
            Step::Wait(wait) => {
                *now += ms(wait);
                self.front.tick(*now);
            }
        }
        while let Some(ready) = self.front.poll_ready() {
            let (Ready::Admitted { handle, .. } | Ready::Expired { handle, .. }) = ready;
            let place = self.waiting.iter().position(|waits| *waits == handle);
            self.waiting.swap_remove(place.expect("it waited"));
            if let Ready::Admitted { ticket, .. } = ready {
                self.tickets.push(ticket);
            }
        }
    }

    fn check(&self, now: Duration, is_idling: bool) {
        let snapshot = self.front.snapshot(now);
        let waiting: usize = snapshot.classes.iter().map(|class| class.waiting).sum();
        assert_eq!(waiting, self.waiting.len());
        let in_service: u64 = snapshot.classes.iter().map(|class| class.in_service).sum();
        let in_flight: u32 = snapshot.servers.iter().map(|server| server.in_flight).sum();
        assert_eq!(
            (in_service, u64::from(in_flight)),
            (self.tickets.len() as u64, self.tickets.len() as u64)
        );
        for (place, class) in snapshot.classes.iter().enumerate() {
            let mut servers = snapshot.servers.iter().zip(self.available).zip(&self.serving);
            let has_room = servers.any(|((server, is), classes)| {
                is && classes.has(ClassId(place)) && server.in_flight < server.limit
            });
            assert!(is_idling || class.waiting == 0 || !has_room, "a place is idle while somebody waits");
        }
        for ticket in &self.tickets {
            assert!(self.serving[ticket.server().0].has(ticket.class()), "{ticket:?}");
        }
        assert!(!self.front.next_tick().is_zero());
        for class in &snapshot.classes {
            let Counters { arrived, answered, failed, abandoned, cancelled, refused, expired, .. } =
                class.counters;
            // What was tried again has failed before it ends once more.
            let over = answered + abandoned + cancelled + refused + expired;
            assert!(over <= arrived && arrived <= over + failed + class.waiting as u64 + class.in_service);
        }
    }
}

fn any_front(discipline: Discipline, idling: bool, is_adaptive: bool, is_parted: bool) -> Beside {
    let class = |ratio, objective, shed| ClassConfig { ratio, objective, shed, max_waiting: 8 };
    let limit = |limit| if is_adaptive { LimitConfig::Adaptive } else { LimitConfig::Fixed(limit) };
    let of = |classes: &[usize]| ClassSet::of(classes.iter().copied().map(ClassId));
    let serving = if is_parted { [of(&[0, 1]), of(&[1]), of(&[2])] } else { [ClassSet::ALL; 3] };
    let config = Config {
        classes: vec![class(1.0, Some(ms(100)), false), class(2.0, None, true), class(4.0, None, false)],
        servers: [0, 1, 2]
            .map(|of| ServerConfig { limit: limit(of + 1), classes: serving[of as usize] })
            .into(),
        discipline,
        idling,
        ..Config::default()
    };
    let front = Admission::new(config, Duration::ZERO).unwrap();
    Beside { front, tickets: Vec::new(), waiting: Vec::new(), available: [true; 3], serving }
}

proptest! {
    #[test]
    fn no_place_is_lost_nor_idle_while_somebody_waits(
        steps in proptest::collection::vec(step(), 0..300),
        discipline in prop_oneof![Just(Discipline::ByAge), Just(Discipline::Fair), Just(Discipline::AgeAlone), Just(Discipline::FirstCome)],
        idling: bool,
        is_adaptive: bool,
        is_parted: bool,
    ) {
        let mut beside = any_front(discipline, idling, is_adaptive, is_parted);
        let mut now = Duration::ZERO;
        for step in steps {
            beside.play(&step, &mut now);
            beside.check(now, idling);
        }
        // Once all have hung up and all servers are there every place is free.
        for handle in std::mem::take(&mut beside.waiting) {
            prop_assert!(beside.front.cancel(handle, now));
        }
        for ticket in std::mem::take(&mut beside.tickets) {
            beside.front.finish(ticket, Outcome::Answered, now);
        }
        prop_assert!(beside.front.poll_ready().is_none());
        prop_assert!(beside.front.snapshot(now).servers.iter().all(|server| server.in_flight == 0));
    }
}
