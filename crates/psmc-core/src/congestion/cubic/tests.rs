use super::*;

const SIZE: u64 = 1000;
const RTT: Duration = Duration::from_millis(100);

/// A controller and the clock of its path.
struct Path {
    cubic: Cubic,
    now: Instant,
}

impl Path {
    fn new() -> Self {
        Self { cubic: Cubic::new(1000), now: Instant::now() }
    }

    /// A path in congestion avoidance, after a loss at `window`; the round of that loss is over.
    fn after_loss(window: f64) -> Self {
        let mut path = Self::new();
        path.ack(0);
        path.cubic.window = window;
        path.lose();
        path.now += RTT + RTT / 4;
        path
    }

    /// A round trip in which the whole window was used, acknowledged in one go.
    fn round(&mut self) {
        self.now += RTT;
        self.ack(self.cubic.window());
    }

    /// Acknowledges that many bytes, all that were in flight.
    fn ack(&mut self, bytes: u64) {
        let sample = AckSample { acked_bytes: bytes, rtt: Some(RTT), ..AckSample::default() };
        self.cubic.on_ack(&sample, self.now);
    }

    fn lose(&mut self) {
        self.cubic.on_loss(SIZE, 0, self.now);
    }
}

fn assert_near(left: f64, right: f64, tolerance: f64) {
    assert!((left - right).abs() <= tolerance, "{left} is not {right}");
}

#[test]
fn slow_start_doubles_the_window_in_each_round() {
    let mut path = Path::new();
    for window in [20, 40, 80, 160] {
        path.round();
        assert_eq!(path.cubic.window(), window * SIZE);
    }
}

#[test]
fn a_loss_leaves_seven_tenths_and_ends_slow_start() {
    let mut path = Path::new();
    path.round();
    path.round();
    path.lose();
    assert_eq!(path.cubic.window(), 28 * SIZE);
    assert!(!path.cubic.in_slow_start());
}

#[test]
fn the_losses_of_one_round_reduce_once() {
    let mut path = Path::after_loss(100.0);
    path.lose();
    for _ in 0..10 {
        path.now += RTT / 10;
        path.lose();
        assert_near(path.cubic.window, 49.0, 0.1);
    }
    path.now += RTT / 2;
    path.lose();
    assert_near(path.cubic.window, 34.3, 0.1);
}

#[test]
fn the_window_does_not_grow_on_what_was_sent_before_the_reduction() {
    let mut path = Path::after_loss(100.0);
    path.lose();
    let reduced = path.cubic.window();
    path.now += RTT / 2;
    path.ack(reduced);
    assert_eq!(path.cubic.window(), reduced);
}

#[test]
fn no_loss_leaves_less_than_two_datagrams() {
    let mut path = Path::new();
    for _ in 0..20 {
        path.lose();
        path.now += 2 * RTT;
    }
    assert_eq!(path.cubic.window(), 2 * SIZE);
}

#[test]
fn who_falls_short_of_its_plateau_lowers_it() {
    let mut path = Path::after_loss(100.0);
    assert_near(path.cubic.plateau, 100.0, 0.0);
    path.lose();
    assert_near(path.cubic.plateau, 70.0 * 0.85, 1e-9);
}

/// K = cbrt(1000 * 0.3 / 0.4) = 9.09 s; until then the curve is steep, flat, and beyond it steep again.
#[test]
fn it_is_back_at_the_plateau_after_k_seconds() {
    let mut path = Path::after_loss(1000.0);
    let mut windows = Vec::new();
    for _ in 0..180 {
        path.round();
        windows.push(path.cubic.window);
    }
    assert!(windows.is_sorted());
    assert_near(windows[45], 1000.0 - 0.4 * 4.5f64.powi(3), 15.0);
    assert_near(windows[91], 1000.0, 3.0);
    assert!(windows[91] - windows[80] < 2.0 && windows[179] > 1200.0, "{} {}", windows[80], windows[179]);
}

#[test]
fn on_a_small_window_it_is_as_fast_as_reno() {
    let mut path = Path::after_loss(10.0);
    let (before, mut reno) = (path.cubic.window, path.cubic.window);
    for _ in 0..10 {
        path.round();
        reno += if reno < 10.0 { ALPHA } else { 1.0 };
    }
    assert!(path.cubic.window >= reno - 1.0, "{before} {} {reno}", path.cubic.window);
}

#[test]
fn a_window_that_is_not_used_does_not_grow_and_its_time_does_not_count() {
    let mut path = Path::after_loss(1000.0);
    path.round();
    for _ in 0..300 {
        path.now += RTT;
        path.ack(10 * SIZE);
    }
    let idle = path.cubic.window;
    path.round();
    path.round();
    assert!(path.cubic.window - idle < 40.0, "{} {idle}", path.cubic.window);
    let mut busy = Path::after_loss(1000.0);
    (0..3).for_each(|_| busy.round());
    assert_near(path.cubic.window, busy.cubic.window, 20.0);
}

#[test]
fn in_slow_start_half_of_the_window_must_be_used() {
    let mut path = Path::new();
    for (bytes, window) in [(4 * SIZE, 10), (5 * SIZE, 10), (6 * SIZE, 16)] {
        path.now += RTT;
        path.ack(bytes);
        assert_eq!(path.cubic.window(), window * SIZE, "{bytes}");
    }
}

#[test]
fn it_paces_at_twice_the_window_in_slow_start_and_at_five_quarters_afterwards() {
    let mut path = Path::new();
    path.round();
    assert_eq!(path.cubic.pacing_rate(), 2 * 20 * SIZE * 10);
    let path = Path::after_loss(100.0);
    assert_eq!(path.cubic.pacing_rate(), 70 * SIZE * 10 * 5 / 4);
}

#[test]
fn a_restart_forgets_the_path() {
    let mut path = Path::after_loss(100.0);
    path.cubic.on_restart(path.now);
    assert_eq!((path.cubic.window(), path.cubic.bandwidth()), (10 * SIZE, None));
    assert!(path.cubic.in_slow_start());
}
