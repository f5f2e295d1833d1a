//! How soon fifty secondaries serve what has been published on their primary: ours, and BIND.

use psmc_net::keys::PrivateKey;

use super::super::relayed::network::program;
use super::{RUNS, output};
use crate::experiment::{Figure, Row, Setup};
use psmc_lab::bench::median;

pub(super) fn measure(setup: &mut Setup<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for primary in [Primary::Ours, Primary::Bind] {
        let name = primary.name();
        if !setup.wants_any(name, FIGURES) {
            continue;
        }
        let run = format!("secondaries-{}", primary.program());
        let seconds = setup.seconds(SECONDS);
        let results = setup.run(&run, &scenario(primary, seconds));
        let looks = results.map(|results| looks_of(output(&results, "publish"))).unwrap_or_default();
        let [typical, last] = FIGURES.map(|figure| format!("{name}, {figure}"));
        let worst = looks.iter().map(|look| look.last().copied()).collect::<Option<Vec<_>>>();
        let worst = worst.and_then(|worst| worst.into_iter().reduce(f64::max));
        let middle = median(looks.iter().map(|look| look.get(look.len() / 2).copied()));
        rows.push(Figure::new(typical, "s", middle).shown());
        let last = Figure::new(last, "s", worst);
        rows.push(if primary == Primary::Ours { last.at_most(LIMIT) } else { last.shown() });
    }
    rows
}

/// Who has the zone first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Primary {
    Ours,
    Bind,
}

impl Primary {
    fn name(self) -> &'static str {
        match self {
            Self::Ours => "psmc-dns as primary",
            Self::Bind => "BIND as primary",
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::Ours => "psmc-dns",
            Self::Bind => "named",
        }
    }

    fn command(self) -> &'static str {
        match self {
            Self::Ours => r#"["psmc-dns", "serve", "{dir}/primary.toml"]"#,
            Self::Bind => r#"["named", "-g", "-n", "1", "-c", "{dir}/primary.conf"]"#,
        }
    }

    /// Its configuration, as docs/DNS.md says.
    fn files(self) -> String {
        match self {
            Self::Ours => {
                let told: Vec<String> = addresses().map(|address| format!("\"{address}\"")).collect();
                format!(
                    "cat > primary.toml <<END\n[server]\nname = \"primary\"\nlisten = [\"{PRIMARY}\"]\n\
                     database = \"zones.db\"\ncontrol_socket = \"{{dir}}/primary.sock\"\n\
                     [[key]]\nfile = \"up.key\"\n\
                     [[zone]]\nname = \"example.com\"\nfile = \"zone\"\nupdate = [\"up\"]\nnotify = [{}]\nEND\n",
                    told.join(", ")
                )
            }
            Self::Bind => {
                let told: String = addresses().map(|address| format!("{address}; ")).collect();
                format!(
                    "cat > primary.conf <<END\ninclude \"{{dir}}/up.key\";\n\
                     options {{ directory \"{{dir}}\"; pid-file none; lock-file none; session-keyfile none;\n\
                     listen-on port 53 {{ {PRIMARY}; }}; listen-on-v6 {{ none; }}; recursion no;\n\
                     dnssec-validation no; notify-rate 1000; startup-notify-rate 1000; transfers-out 1000; }};\n\
                     controls {{ }};\n\
                     zone \"example.com\" {{ type primary; file \"zone\"; allow-update {{ key up; }};\n\
                     notify explicit; notify-delay 0; also-notify {{ {told}}}; }};\nEND\n"
                )
            }
        }
    }
}

/// When each secondary served the new records, in s and in this order, for each time they were published; empty for one
/// at which some did not.
fn looks_of(output: &str) -> Vec<Vec<f64>> {
    let mut looks = vec![Vec::new(); RUNS as usize];
    for line in output.lines() {
        let Some((run, ns)) = line.strip_prefix("served ").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        let look = run.parse::<usize>().ok().and_then(|run| looks.get_mut(run));
        if let (Some(look), Ok(ns)) = (look, ns.parse::<f64>()) {
            look.push(ns / 1e9);
        }
    }
    for look in &mut looks {
        if look.len() != SECONDARIES as usize {
            look.clear();
        }
        look.sort_by(f64::total_cmp);
    }
    looks
}

fn scenario(primary: Primary, seconds: u32) -> String {
    let files = format!("[\"sh\", \"-c\", '''{}''']", files(primary));
    let own: String = addresses().map(|address| format!(", \"{address}/24\"")).collect();
    let mut text = format!(
        "duration = \"{seconds}s\"\n\n\
         [[link]]\nname = \"line\"\nbetween = [\"primary\", \"secondaries\"]\n\
         addresses = [[\"{PRIMARY}/24\"], [\"10.1.0.2/24\"{own}]]\ndelay = \"24.5ms\"\n\n"
    );
    text += &program("files", "primary", "0s", &files);
    text += &program("primary", "primary", "1s", primary.command());
    for (number, _) in addresses().enumerate() {
        let command =
            format!("[\"named\", \"-g\", \"-n\", \"1\", \"-c\", \"{{dir}}/named{number}/named.conf\"]");
        text += &program(&format!("named{number}"), "secondaries", "2s", &command);
    }
    text + &format!(
        "[[program]]\nname = \"publish\"\nhost = \"secondaries\"\nstart = \"3s\"\noutput = true\n\
         command = [\"sh\", \"-c\", '''{}''']\n",
        script()
    )
}

/// A script that makes the files of all servers.
fn files(primary: Primary) -> String {
    let [secret, service] = [PrivateKey::generate(), PrivateKey::generate()];
    let last = SECONDARIES - 1;
    format!(
        "umask 077; cd {{dir}}\n\
         echo 'key up {{ algorithm hmac-sha256; secret \"{}\"; }};' > up.key\n\
         echo {} > service.key\n\
         cat > zone <<END\n{ZONE}END\n\
         {}\
         for number in $(seq 0 {last}); do\n\
         address={NETWORK}.$((number + {FIRST}))\n\
         mkdir named$number\n\
         cat > named$number/named.conf <<END\n\
         options {{ directory \"{{dir}}/named$number\"; pid-file none; lock-file none; session-keyfile none; notify no;\n\
         listen-on port 53 {{ $address; }}; listen-on-v6 {{ none; }}; recursion no; dnssec-validation no;\n\
         transfer-source $address; serial-query-rate 1000; transfers-in 1000; transfers-per-ns 1000; }};\n\
         controls {{ }};\n\
         zone \"example.com\" {{ type secondary; file \"copy\"; primaries {{ {PRIMARY}; }}; }};\n\
         END\n\
         echo \"@$address +short +identify +tries=1 +time=1 www.example.com A\" >> ready\n\
         echo \"@$address +short +identify +tries=1 +time=1 www.example.com TYPE65400\" >> routes\n\
         done\n",
        secret.to_base64().as_str(),
        service.to_base64().as_str(),
        primary.files(),
    )
}

/// A script that publishes routes again and again, and asks all secondaries in turns until each has the new ones. The time
/// of an answer is when all have been asked.
fn script() -> String {
    let relays = ["198.51.100.7", "203.0.113.9"];
    let relay = |address| format!(" --relay {address}:5115={}", PrivateKey::generate().public());
    let relays: String = relays.map(relay).concat();
    format!(
        "cd {{dir}}\n\
         until [ \"$(dig -f ready | grep -c 'from server')\" = {SECONDARIES} ]; do sleep 0.2; done\n\
         old=none\n\
         for run in $(seq 0 {}); do\n\
         cp routes left\n\
         begin=$(date +%s%N)\n\
         psmc dns reroute publish www.example.com --server {PRIMARY} --tsig-key up.key --service-key service.key{relays} &\n\
         while [ -s left ] && [ $(($(date +%s%N) - begin)) -lt {PATIENCE}000000000 ]; do\n\
         dig -f left > answers\n\
         after=$(($(date +%s%N) - begin))\n\
         grep -vF \"$old\" answers | sed -n 's/.* from server \\([0-9.]*\\) in .*/@\\1 /p' > new\n\
         for address in $(cat new); do echo \"served $run $after\"; done\n\
         grep -vFf new left > rest\n\
         mv rest left\n\
         sleep 0.01\n\
         done\n\
         wait\n\
         old=$(dig @{PRIMARY} +short www.example.com TYPE65400)\n\
         done\n",
        RUNS - 1
    )
}

/// Of the secondaries.
fn addresses() -> impl Iterator<Item = String> {
    (FIRST..FIRST + SECONDARIES).map(|host| format!("{NETWORK}.{host}"))
}

const FIGURES: [&str; 2] = ["the secondary in the middle", "the last secondary"];

const SECONDARIES: u32 = 50;

const PRIMARY: &str = "10.1.0.1";
const NETWORK: &str = "10.1.0";

/// The first secondary's number in the network; the others follow.
const FIRST: u32 = 101;

/// In s.
const LIMIT: f64 = 1.0;

/// How long the secondaries are asked each time, in s.
const PATIENCE: u32 = 10;

/// Of each run, most of which so many servers take to start.
const SECONDS: u32 = 45;

/// Of the service; its dollar is not the shell's.
const ZONE: &str = "\\$TTL 60
@ IN SOA ns1 hostmaster 1 3600 600 86400 60
@ IN NS ns1
ns1 IN A 10.1.0.1
www IN A 203.0.113.5
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_counts_if_all_secondaries_served() {
        let all = |run: u32, count: u32| -> String {
            (1..=count).rev().map(|ms| format!("served {run} {ms}000000\n")).collect()
        };
        let looks = looks_of(&(all(0, SECONDARIES) + &all(2, SECONDARIES - 1)));
        assert_eq!((looks[0].len(), looks[0].first(), looks[0].last()), (50, Some(&0.001), Some(&0.05)));
        assert!(looks[1].is_empty() && looks[2].is_empty());
    }
}
