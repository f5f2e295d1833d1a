//! What a hundred rules cost: processor time of the agents, nftables' program included, by rounds of reports.

use std::fs;
use std::process::Command;
use std::time::Duration;

use psmc_net::framing::{MessageReader, write_message};
use psmc_net::keys::PrivateKey;
use psmc_net::tls::tcp::connect_tcp;
use psmc_net::tls::{Dialer, Identity};
use psmc_service::clock::since_1970;
use psmc_shed::message::{ALPN, Message, Rules, Wanted};
use psmc_testbed::steadily::{Measured, steadily, turn};

use crate::world::{CONTROL, PATIENCE, SERVER, World};

/// Rounds that are counted: reports of the router, two a second. The kernel counts in hundredths of a second, which is
/// 0.5 ms a round.
const ROUNDS: u32 = 20;

/// Rules are said again after so many rounds, as an agent does whose rules last ten seconds.
const RENEWED: u32 = 5;

/// Rules of each of two servers.
const RULES: u16 = 50;

/// How much a round of a hundred rules may cost, in lists of their counters by `nft`: the agent asks the kernel itself.
const MOST: f64 = 2.0;

/// A hundredth of a second: what Linux counts processor time in for `/proc` on all machines (`USER_HZ`).
const TICK: Duration = Duration::from_millis(10);

/// The processor time of a process and of those that it has waited for, in ticks (proc_pid_stat(5): utime, stime, cutime, cstime).
fn ticks(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    fields.skip(11).take(4).map(|field| field.parse::<u32>().unwrap()).sum()
}

/// What a list of all rules by `nft` costs on a router, in milliseconds: by the shell, which counts what it has waited for (times(2)).
fn list_by_program(world: &World) -> f64 {
    let script =
        format!("i=0; while [ $i -lt {ROUNDS} ]; do nft list ruleset > /dev/null; i=$((i+1)); done; times");
    let mut shell = Command::new("sh");
    let output = world.routers[0].namespace.run(|| shell.args(["-c", &script]).output()).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // Of the children, for the user and in the kernel, such as `0m0.070s 0m0.030s`.
    let times = text.lines().nth(1).unwrap().split_whitespace();
    let seconds = times.map(|time| {
        let (minutes, seconds) = time.trim_end_matches('s').split_once('m').unwrap();
        minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
    });
    seconds.sum::<f64>() * 1e3 / f64::from(ROUNDS)
}

/// Rules of the second server, in one message.
fn rules(count: u16) -> Message {
    let now = u64::try_from(since_1970().as_millis()).unwrap();
    let rule = |port: u16| Wanted {
        name: format!("r{port}"),
        destination: "198.51.100.1/32".to_owned(),
        source: None,
        protocol: Some(17),
        ports: Some((port + 1, port + 1)),
        rate: Some(1_000_000),
    };
    Message::Rules(Rules { serial: now, expires_ms: now + 60_000, rules: (0..count).map(rule).collect() })
}

/// Ticks that processes have taken in [`ROUNDS`] reports to the second server, after its rules were taken.
fn measure(world: &World, key: &PrivateKey, count: u16, pids: [u32; 2]) -> [u32; 2] {
    let (identity, expected) = (Identity::new(key), world.routers[0].key.public());
    let talk = || async move {
        let stream = connect_tcp(None, None, World::address(0), PATIENCE).await.unwrap();
        let secured = Dialer::for_protocol(&identity, expected, ALPN).connect(stream).await.unwrap();
        let (mut stream, mut reader) = (secured.stream, MessageReader::default());
        write_message(&mut stream, &rules(count)).await.unwrap();
        while !matches!(reader.next(&mut stream).await.unwrap(), Message::Taken { .. }) {}
        let before = pids.map(ticks);
        for round in 1..=ROUNDS {
            if round.is_multiple_of(RENEWED) {
                write_message(&mut stream, &rules(count)).await.unwrap();
            }
            while !matches!(reader.next(&mut stream).await.unwrap(), Message::Report { .. }) {}
        }
        let after = pids.map(ticks);
        [after[0] - before[0], after[1] - before[1]]
    };
    world.server.namespace.block_on(talk).unwrap()
}

#[test]
fn a_hundred_rules_cost_little_more_than_to_list_them() {
    steadily(Measured::Time, || {
        let _turn = turn();
        let mut world = World::new();
        let key = PrivateKey::generate();
        let [hq, second] = [world.server.key.public(), key.public()];
        world.routers[0].start(&format!(
            "[router]\nlisten = {CONTROL}\n\
             [[server]]\nname = \"hq\"\npublic_key = \"{hq}\"\nprefixes = [\"{SERVER}\"]\nmax_rules = 64\n\
             [[server]]\nname = \"second\"\npublic_key = \"{second}\"\nprefixes = [\"198.51.100.0/24\"]\nmax_rules = 64\n"
        ));
        let mut by_program = 0.0;
        let mut cost = |count: u16| {
            let class = |port: u16| {
                format!(
                    "[[accept]]\nname = \"c{port}\"\ndestination = \"{SERVER}\"\nprotocol = \"tcp\"\nports = {}\nrate = \"1mbit\"\n",
                    port + 1
                )
            };
            let (router, address) = (world.routers[0].key.public(), World::address(0));
            let classes: String = (0..count).map(class).collect();
            world.server.start(&format!(
                "{classes}[[upstream]]\nname = \"r1\"\nkind = \"nft\"\naddress = \"{address}\"\npublic_key = \"{router}\"\n"
            ));
            world.wait_until_current();
            let pids = [&world.routers[0], &world.server].map(|host| host.pid());
            let cost = measure(&world, &key, count, pids);
            by_program = list_by_program(&world);
            world.server.end("-TERM");
            cost.map(|ticks| f64::from(ticks) * TICK.as_secs_f64() * 1e3 / f64::from(ROUNDS))
        };
        let (one, many) = (cost(1), cost(RULES));
        // A round is half a second: 5 ms in it are 1 %.
        for (who, place) in [("router", 0), ("server", 1)] {
            println!("| {who} | {:.1} | {:.1} | {:.2} |", one[place], many[place], many[place] / 5.0);
        }
        assert!(many[0] > 0.0, "the router has done something");
        println!("to list the rules by nft: {by_program:.1} ms");
        let most = MOST * by_program;
        assert!(many[0] <= most, "{many:?} ms a round, and {by_program} to list the rules with nft");
    });
}
