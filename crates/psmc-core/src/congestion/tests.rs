//! The controllers against a simulated bottleneck.

mod bottleneck;
mod flow;

use std::time::{Duration, Instant};

use super::CongestionConfig;
use bottleneck::{Link, Measured, Sim};
use flow::Flow;

const MBIT: u64 = 1_000_000;

fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

fn model(begins: Instant) -> Flow {
    Flow::new(CongestionConfig::Model.build(1400, None), begins)
}

fn one_flow(link: Link) -> Sim {
    let start = Instant::now();
    Sim::new(link, vec![model(start)], start)
}

#[test]
fn table() {
    for rate in [1, 10, 40, 100, 1000] {
        for rtt in [200, 5_000, 20_000, 100_000,200_000] {
            let mut sim = one_flow(Link::new(rate * MBIT, micros(rtt)));
            let up = sim.run_until(2.0);
            let steady = sim.run_until(12.0);
            println!("{rate:5} Mb/s {:6.1} ms | up {:4.0}% q {:6.1} ms drop {} | {:5.1}% queue {:6.1} ms dropped {}", rtt as f64/1000.0,
            up.utilisation*100.0, up.queueing.as_secs_f64()*1e3, up.dropped, steady.utilisation * 100.0, steady.queueing.as_secs_f64()*1e3, steady.dropped);
        }
    }
}

fn show(name: &str, m: Measured) {
    println!("{name}: {:5.1}% queue {:6.1} ms dropped {}", m.utilisation * 100.0, m.queueing.as_secs_f64() * 1e3, m.dropped);
}

#[test]
fn explore_changes() {
    for rtt in [200, 5_000, 20_000, 100_000, 200_000] {
      for (a, b) in [(40, 4), (4, 40), (1000, 50), (50,1000),(20,30),(30,20)] {
        for queue in [20, 200, 500] {
        let mut sim = one_flow(Link { queue: Duration::from_millis(queue), ..Link::new(a * MBIT, micros(rtt)) });
        sim.run_until(4.0);
        sim.set_rate(b * MBIT);
        let mut ok = 0; let mut settle = 99.0; let mut worst: f64=0.0; let mut dr=0;
        for i in 1..=40 {
            let m = sim.run_until(4.0 + 0.25*i as f64);
            dr += m.dropped;
            let q = m.queueing.as_secs_f64()*1e3;
            worst = worst.max(q);
            if m.utilisation > 0.85 && q < 20.0 + 0.6 * rtt as f64/1e3 { ok += 1; if ok == 2 { settle = 0.25*(i-1) as f64; break; } } else { ok = 0; }
        }
        let m = sim.run_until(25.0);
        println!("C {a}->{b} rtt {} q {queue}: settled {settle} worst q {worst:.0} drop {dr} .. {:.0}/{:.0}", rtt as f64/1e3, m.utilisation*100.0, m.queueing.as_secs_f64()*1e3);
      }}
    }
}

#[test]
fn explore_loss() {
    for loss in [5, 20, 40, 80] {
    for rate in [1, 10, 40, 100, 1000] {
        for rtt in [200, 5_000, 20_000, 100_000,200_000] {
            let mut sim = one_flow(Link { loss, ..Link::new(rate * MBIT, micros(rtt))});
            let up = sim.run_until(2.0);
            let s = sim.run_until(12.0);
            println!("L {loss} {rate} {} up {:.0} steady {:.1} q {:.1}", rtt as f64/1e3, up.utilisation*100.0, s.utilisation*100.0, s.queueing.as_secs_f64()*1e3);
        }
    }}
}

#[test]
fn explore_shallow() {
    for late in [0, 2, 5, 10] {
    for rate in [1, 10, 40, 100, 1000] {
        for rtt in [200, 5_000, 20_000, 100_000,200_000] {
            let mut sim = one_flow(Link { queue: Duration::from_millis(20), lateness: Duration::from_millis(late), ..Link::new(rate * MBIT, micros(rtt))});
            let up = sim.run_until(2.0);
            let s = sim.run_until(12.0);
            println!("S late {late} {rate} {} up {:.0} steady {:.1} q {:.1} drop {} of {}", rtt as f64/1e3, up.utilisation*100.0, s.utilisation*100.0, s.queueing.as_secs_f64()*1e3, s.dropped, rate * MBIT*10/8/1400);
        }
    }}
}

#[test]
fn explore_two() {
    for rate in [1, 10, 100, 1000] {
        for rtt in [200, 5_000, 20_000, 100_000,200_000] {
            for queue in [20,200] {
            let start = Instant::now();
            let flows = vec![model(start), model(start + Duration::from_secs(3))];
            let mut sim = Sim::new(Link { queue: Duration::from_millis(queue), ..Link::new(rate * MBIT, micros(rtt))}, flows, start);
            let mut line = String::new();
            for i in 1..=10 {
                let before: Vec<u64> = sim.flows.iter().map(|f| f.acked).collect();
                let m = sim.run_until(3.0 + 3.0*i as f64);
                let r: Vec<f64> = sim.flows.iter().zip(before).map(|(f, b)| (f.acked-b) as f64*8.0/3.0/(rate*MBIT) as f64*100.0).collect();
                line += &format!(" {:2.0}:{:2.0}({:.0}ms)", r[0], r[1], m.queueing.as_secs_f64()*1e3);
            }
            println!("T {rate} {} q{queue} {line}", rtt as f64/1e3);
        }}
    }
}

#[test]
fn explore_cpu() {
    for cpu in [500, 2000, 5000] {
        for rtt in [100, 500] {
            let start = Instant::now();
            let mut flow = model(start);
            flow.processor = cpu * MBIT / 8;
            let mut sim = Sim::new(Link::new(10_000 * MBIT, micros(rtt)), vec![flow], start);
            for at in [0.1, 0.2,0.3,0.4,0.5,1.0,2.0] {
                let m = sim.run_until(at);
                println!("P cpu {cpu} rtt {rtt} until {at}: {:.0} Mb/s q {:?} pace {}", m.utilisation*10_000.0, m.queueing, sim.flows[0].controller.pacing_rate()*8/MBIT);
            }
        }
    }
}

#[test]
fn trace() {
    let e = |k: &str, d: u64| std::env::var(k).ok().and_then(|v| v.parse().ok()).unwrap_or(d);
    let mut sim = one_flow(Link { queue: Duration::from_millis(e("Q", 20)), lateness: Duration::from_millis(e("LATE", 2)), loss: e("LOSS", 0), ..Link::new(e("RATE", 100) * MBIT, micros(e("RTT", 200_000)))});
    let change = e("AT", 1000) as f64;
    for i in 1..=e("N", 60) {
        let at = i as f64 * e("STEP", 100) as f64 / 1000.0;
        let m = sim.run_until(at);
        if (at - change).abs() < 0.001 { sim.set_rate(e("TO", 10) * MBIT); }
        let s = format!("{:?}", sim.flows[0].controller);
        let f = |k: &str| s.split(k).nth(1).unwrap_or("").trim_start_matches(": ").split([',', '}']).next().unwrap().to_string();
        println!("{at:.2} u {:3.0}% q {:5.1} drop {} {} r{} pace {:.1} win {:.0}kB bw {:.1} minrtt {} ceil {} slow {} lossy {} growth {} {}", m.utilisation*100.0, m.queueing.as_secs_f64()*1e3, m.dropped, f("phase"), f("phase_rounds"),
          sim.flows[0].controller.pacing_rate() as f64*8e-6, sim.flows[0].controller.window() as f64/1e3, sim.flows[0].controller.bandwidth().unwrap_or(0) as f64*8e-6, f("min_rtt"), f("loss_ceiling"), f("slow_rounds"), f("lossy_rounds"), f("grown"), f("stalled"));
    }
}
