//! Devices with known parameters, in virtual time.
#![expect(clippy::unwrap_used, reason = "what is made here is right")]

use std::time::{Duration, Instant};

use psmc_sim::link::PacketInfo;
use psmc_sim::profiler::{Outcome, Passage, Plan, Profile, Profiler, ProfilerError, Stream, Trial};
use psmc_sim::router::{Amount, PortConfig, Router, RouterConfig, Table, Tables};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const SIZES: [usize; 5] = [46, 182, 582, 982, 1482];
const RATE: u64 = 100_000_000;
const FRAMING: usize = 18;

fn plan(ports: usize) -> Plan {
    Plan { ports, rate: RATE, framing: FRAMING, sizes: SIZES.to_vec() }
}

/// Makes the trials on a model, each on an empty one; says how long they took, in virtual time.
fn profile(config: &RouterConfig) -> Result<(Profile, Duration), ProfilerError> {
    let mut profiler = Profiler::new(plan(config.ports().len()))?;
    let mut took = Duration::ZERO;
    while let Some(trial) = profiler.poll_trial() {
        profiler.handle_outcome(&run(&trial, config))?;
        let ends = trial.streams.iter().map(|stream| stream.offset + stream.gap * stream.packets);
        took += ends.max().unwrap();
    }
    Ok((profiler.profile().unwrap(), took))
}

fn run(trial: &Trial, config: &RouterConfig) -> Outcome {
    let start = Instant::now();
    let mut router = Router::new(config.clone(), 1, start);
    let mut entries: Vec<(Instant, usize, usize)> = Vec::new();
    for (index, stream) in trial.streams.iter().enumerate() {
        let at = |number| start + stream.offset + stream.gap * number;
        entries.extend((0..stream.packets).map(|number| (at(number), index, number as usize)));
    }
    entries.sort();
    let mut streams: Vec<Vec<Passage>> = trial.streams.iter().map(lost).collect();
    for (at, index, number) in entries {
        let stream = trial.streams[index];
        router.handle_packet(
            (at, index, number),
            PacketInfo::new(stream.len),
            stream.input,
            Some(stream.output),
            at,
        );
        while router.poll_dropped().is_some() {}
    }
    let end = start + Duration::from_secs(3600);
    while let Some(departure) = router.poll_packet(end) {
        let (entered, index, number) = departure.packet;
        streams[index][number].delay = Some(departure.at - entered);
    }
    Outcome { streams }
}

/// Of a stream nothing arrives.
fn lost(stream: &Stream) -> Vec<Passage> {
    let entered = |number| stream.offset + stream.gap * number;
    (0..stream.packets).map(|number| Passage { entered: entered(number), delay: None }).collect()
}

/// A device like those of the seed's tables: four ports, which together bring more than it can serve; and one of three ways to
/// count slots.
fn device(seed: u64) -> RouterConfig {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut between =
        |low: f64, high: f64| low + (high - low) * f64::from(rng.next_u32()) / f64::from(u32::MAX);
    let (first, slope) = (between(20e-6, 80e-6), between(20e-9, 100e-9));
    let delays = SIZES.map(|len| first + slope * len as f64);
    let offered = |index: usize| 4.0 * delays[index] * RATE as f64 / ((SIZES[index] + FRAMING) as f64 * 8.0);
    let served: Vec<f64> = (0..SIZES.len()).map(|index| between(0.4, 0.9) * offered(index)).collect();
    let servers = served.iter().copied().fold(0.0, f64::max);
    let slots = between(60.0, 300.0).round();
    let way = between(0.0, 3.0);
    let need = |len: usize| match way {
        ..1.0 => 1.0,
        ..2.0 => (len + FRAMING) as f64 / 1500.0,
        _ if len > 600 => 1.0,
        _ => 0.25,
    };
    let amount = |value| Amount::new(value).unwrap();
    let rows = SIZES.iter().enumerate();
    let tables = Tables {
        delay: Table::<Duration>::new(
            rows.clone().map(|(at, len)| (*len, Duration::from_secs_f64(delays[at]))).collect(),
        )
        .unwrap(),
        servers: Table::<Amount>::new(
            rows.clone().map(|(at, len)| (*len, amount(servers / served[at]))).collect(),
        )
        .unwrap(),
        slots: Table::<Amount>::new(SIZES.map(|len| (len, amount(need(len)))).to_vec()).unwrap(),
    };
    let slower = Duration::from_secs_f64(between(0.0, 1500.0)).as_secs();
    let rate = RATE - 1000 * slower;
    let port = PortConfig { framing: FRAMING, ..PortConfig::new(rate, amount(slots)) };
    RouterConfig::new(vec![port; 4], amount(servers), tables, None).unwrap()
}

fn near(found: f64, given: f64, what: &str) {
    assert!((found / given - 1.0).abs() < 0.05, "{what}: {found} instead of {given}");
}

#[test]
fn parameters_of_twenty_devices_are_found() {
    for seed in 0..20 {
        let config = device(seed);
        let (profile, took) = profile(&config).unwrap();
        assert!(took < Duration::from_secs(180), "{took:?}");
        let found = profile.config().unwrap();
        let [given_port, found_port] = [&config, &found].map(|config| config.ports()[0].clone());
        near(found_port.rate as f64, given_port.rate as f64, "rate");
        near(found.servers().get(), config.servers().get(), "M");
        near(found_port.slots.get(), given_port.slots.get() / config.tables().slots.of(1482).get(), "Q");
        let scale = given_port.slots.get() / found_port.slots.get();
        for (len, size) in SIZES.into_iter().zip(&profile.sizes) {
            let (given, found) = (config.tables(), found.tables());
            near(found.delay.of(len).as_secs_f64(), given.delay.of(len).as_secs_f64(), "DelayTbl");
            near(found.servers.of(len).get(), given.servers.of(len).get(), "ServReq");
            near(scale * found.slots.of(len).get(), given.slots.of(len).get(), "QueueReq");
            assert!(
                size.served.low <= size.served.value && size.served.value <= size.served.high,
                "{size:?}"
            );
            assert!(size.queued.low <= size.queued.high, "{size:?}");
        }
    }
}

#[test]
fn servers_that_never_were_too_few_have_no_upper_bound() {
    let port = PortConfig { framing: FRAMING, ..PortConfig::new(RATE, Amount::new(50.0).unwrap()) };
    let tables = Tables {
        delay: Table::<Duration>::constant(Duration::from_micros(30)),
        servers: Table::<Amount>::constant(Amount::ONE),
        slots: Table::<Amount>::constant(Amount::ONE),
    };
    let config = RouterConfig::new(vec![port; 4], Amount::new(1000.0).unwrap(), tables, None).unwrap();
    let (profile, _) = profile(&config).unwrap();
    for size in &profile.sizes {
        assert!(size.served.high.is_infinite() && size.served.low > 0.5, "{size:?}");
        near(size.queued.value, 50.0, "Q");
    }
}

#[test]
fn a_device_that_drops_all_is_none() {
    let mut profiler = Profiler::new(plan(2)).unwrap();
    let trial = profiler.poll_trial().unwrap();
    let mut passages = lost(&trial.streams[0]);
    let error = profiler.handle_outcome(&Outcome { streams: vec![passages.clone()] }).unwrap_err();
    assert_eq!(error, ProfilerError::NothingPasses { len: 46, input: 0, output: 1 });
    let error = profiler.handle_outcome(&Outcome { streams: Vec::new() }).unwrap_err();
    assert_eq!(error.to_string(), "there are results of 0 packets, and 20 were sent");
    passages.iter_mut().for_each(|passage| passage.delay = Some(Duration::from_nanos(1)));
    let error = profiler.handle_outcome(&Outcome { streams: vec![passages] }).unwrap_err();
    assert!(matches!(error, ProfilerError::TooFast { .. }), "{error}");
    assert_eq!(profiler.poll_trial(), Some(trial), "the trial can be made once more");
}

#[test]
fn ports_that_differ_are_refused() {
    let config = device(1);
    let mut ports = config.ports().to_vec();
    ports[3].extra = Duration::from_millis(1);
    let config = RouterConfig::new(ports, config.servers(), config.tables().clone(), None).unwrap();
    assert!(matches!(profile(&config), Err(ProfilerError::PortsDiffer { .. })));
}

#[test]
fn plans_that_measure_nothing_are_refused() {
    let wrong = [
        Plan { ports: 1, ..plan(2) },
        Plan { rate: 0, ..plan(2) },
        Plan { sizes: Vec::new(), ..plan(2) },
        Plan { sizes: vec![100, 100], ..plan(2) },
    ];
    assert!(wrong.into_iter().all(|plan| Profiler::new(plan).is_err()));
}
