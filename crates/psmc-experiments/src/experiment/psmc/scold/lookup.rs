//! Tables 3.5 and 3.6: how long a question takes, by the resolver that finds routes, and where a zone has them; as a script asks
//! it with `dnsperf`: one after the other, the median of all.

use std::fmt::Write;

use psmc_lab::bench::median;
use psmc_net::keys::PrivateKey;

use super::{RUNS, output};
use crate::experiment::psmc::relayed::network::{daemon, program};
use crate::experiment::psmc::{RESOLVER, SERVER};
use crate::experiment::{Figure, Row, Setup};

/// A question that is asked for a while.
#[derive(Clone, Copy, Debug)]
struct Question<'a> {
    /// What the time is called.
    label: &'a str,
    server: &'a str,
    /// Of the questions; the file is in the directory of the run. `$run` in it stands for the turn, from 1.
    file: &'a str,
}

/// Lines of a script that ask all of them in turns, as often as everything is measured. Answers that are errors do not count.
fn asked(questions: &[Question<'_>]) -> String {
    let mut text = format!("for run in $(seq {RUNS}); do\n");
    for Question { label, server, file } in questions {
        // To write to a text cannot fail.
        let _ = writeln!(
            text,
            "dnsperf -s {server} -d {file} -n 1 -l {SECONDS} -q 1 -v | awk '/^> NOERROR/ {{ print $5 }}' | sort -n | \
             awk '{{ all[NR] = $1 }} END {{ if (NR) print \"{label}\", all[int((NR + 1) / 2)] }}'"
        );
    }
    text + "done\n"
}

/// What such lines have printed, in ms: the median of all times.
fn answered(output: &str, label: &str) -> Option<f64> {
    let time = |line: &str| line.strip_prefix(label)?.strip_prefix(' ')?.parse::<f64>().ok();
    let times: Vec<f64> = output.lines().filter_map(time).collect();
    median((0..RUNS as usize).map(|run| times.get(run).map(|s| s * 1e3)))
}

/// Lines of a script that make the keys of updaters and of the service, a zone, and files of questions: for the service's
/// address, for its routes, and for names that all differ, others in each turn.
fn files(service: &PrivateKey) -> String {
    let secret = PrivateKey::generate();
    format!(
        "umask 077; cd {{dir}}\n\
         echo 'key up {{ algorithm hmac-sha256; secret \"{}\"; }};' > up.key\n\
         echo {} > service.key\n\
         cat > zone <<END\n{ZONE}END\n\
         yes www.example.com A | head -n {QUESTIONS} > address\n\
         yes www.example.com TYPE65400 | head -n {QUESTIONS} > routes\n\
         for run in $(seq {RUNS}); do seq {QUESTIONS} | sed \"s/.*/name&-$run.example.com A/\" > names$run; done\n",
        secret.to_base64().as_str(),
        service.to_base64().as_str(),
    )
}

/// Lines of a script with the configuration of our server.
fn ours(name: &str, address: &str) -> String {
    format!(
        "cat > {name}.toml <<END\n[server]\nname = \"{name}\"\nlisten = [\"{address}\"]\ndatabase = \"{name}.db\"\n\
         control_socket = \"{{dir}}/{name}.sock\"\nrate_limit = 1000000\n[[key]]\nfile = \"up.key\"\n\
         [[zone]]\nname = \"example.com\"\nfile = \"zone\"\nupdate = [\"up\"]\nEND\n"
    )
}

/// A line of a script that waits until a server answers.
fn wait(address: &str) -> String {
    format!(
        "until dig @{address} +short +tries=1 +time=1 www.example.com A | grep -q '^203'; do sleep 0.1; done\n"
    )
}

/// A command that publishes routes on these servers.
fn publish(servers: &[&str]) -> String {
    let servers: String = servers.iter().map(|server| format!(" --server {server}")).collect();
    let relay = |address| format!(" --relay {address}:5115={}", PrivateKey::from_seed([7; 32]).public());
    let relays = ["198.51.100.7", "203.0.113.9"].map(relay).concat();
    format!(
        "psmc dns reroute publish www.example.com{servers} --tsig-key up.key --service-key service.key{relays}\n"
    )
}

/// Of each turn, in s.
const SECONDS: u32 = 2;

/// More than are asked in a turn.
const QUESTIONS: u32 = 200_000;

/// Of the service; its dollar is not the shell's.
const ZONE: &str = "\\$TTL 60
@ IN SOA ns1 hostmaster 1 3600 600 86400 60
@ IN NS ns1
ns1 IN A 127.0.0.1
www IN A 203.0.113.5
* IN A 203.0.113.6
";

pub(super) fn measure_resolver(setup: &mut Setup<'_>) -> Vec<Row> {
    if !LABELS.iter().any(|label| setup.wants(label)) {
        return Vec::new();
    }
    let seconds = setup.seconds(RESOLVER_SECONDS);
    let results = setup.run("resolver", &resolver_scenario(seconds));
    let times = RESOLVER_QUESTIONS.map(|question| answered(output(results.as_ref()?, "ask"), question.label));
    let [direct, .., service] = times;
    let [enhanced, original] = RESOLVER;
    let limit = direct.map(|direct| direct + MORE);
    let figure = |place: usize| Figure::new(LABELS[place], "ms", times[place]);
    vec![
        figure(0).seed(original).shown(),
        figure(1).at_most(limit),
        Figure::new(LABELS[2], "ms", service).seed(enhanced).at_most(limit),
    ]
}

/// The name server is on the client's host, so that nothing but the resolver differs; the service is the target, and the
/// direct way to it is well.
fn resolver_scenario(seconds: u32) -> String {
    let [target, client] = [PrivateKey::generate(), PrivateKey::generate()];
    let resolver_files = format!("[\"sh\", \"-c\", '''{}''']", resolver_files(&target, &client));
    let mut text = format!(
        "duration = \"{seconds}s\"\n\n\
         [[link]]\nname = \"line\"\nbetween = [\"client\", \"target\"]\n\
         addresses = [\"10.1.0.1/24\", \"{TARGET}/24\"]\n\n"
    );
    text += &program("files", "client", "0s", &resolver_files);
    text += &program("server", "client", "1s", r#"["psmc-dns", "serve", "{dir}/server.toml"]"#);
    text += &program("at-target", "target", "1s", &daemon("psmcd", "target"));
    text += &program("at-client", "client", "1.5s", &daemon("psmcd", "client"));
    let resolve = r#"["psmc", "dns", "resolve", "run", "{dir}/resolver.toml"]"#;
    text += &program("resolver", "client", "2s", resolve);
    text + &format!(
        "[[program]]\nname = \"ask\"\nhost = \"client\"\nstart = \"2.5s\"\noutput = true\n\
         command = [\"sh\", \"-c\", '''cd {{dir}}\n{}{}{}{READY}{}''']\n",
        wait(NAME_SERVER),
        publish(&[NAME_SERVER]),
        wait(RESOLVED),
        asked(&RESOLVER_QUESTIONS),
    )
}

fn resolver_files(target: &PrivateKey, client: &PrivateKey) -> String {
    let site = |name: &str, inside: &str| {
        format!(
            "cat > {name}.toml <<END\n[site]\nname = \"{name}\"\nprivate_key_file = \"{name}.key\"\n\
             control_socket = \"{{dir}}/{name}.sock\"\naddresses = [\"{inside}/32\"]\nlisten = 5115\n"
        )
    };
    files(target)
        + &ours("server", NAME_SERVER)
        + &format!(
            "echo {} > target.key\necho {} > client.key\n\
             {}[[peer]]\nname = \"client\"\npublic_key = \"{}\"\nallowed_ips = [\"10.78.0.1/32\"]\nEND\n\
             {}[[peer]]\nname = \"target\"\npublic_key = \"{}\"\nallowed_ips = [\"10.77.0.1/32\"]\n\
             endpoint = \"{TARGET}:5115\"\nEND\n\
             cat > resolver.toml <<END\n[resolver]\nname = \"local\"\nlisten = [\"{RESOLVED}\"]\nupstream = [\"{NAME_SERVER}\"]\n\
             state_directory = \"state\"\ncontrol_socket = \"{{dir}}/resolver.sock\"\n\
             [[service]]\nname = \"www.example.com\"\npublic_key = \"{}\"\npeer = \"target\"\n\
             socket = \"{{dir}}/client.sock\"\nEND\n",
            target.to_base64().as_str(),
            client.to_base64().as_str(),
            site("target", "10.77.0.1"),
            client.public(),
            site("client", "10.78.0.1"),
            target.public(),
            target.public(),
        )
}

/// Waits until the resolver knows that the service has routes, and that it is reached directly.
const READY: &str = "until psmc dns resolve status {dir}/resolver.sock | grep -q 'reached directly; routes'; do\n\
                     dig @127.0.0.54 +short +tries=1 +time=1 www.example.com A\nsleep 0.2\ndone\n";

const LABELS: [&str; 3] =
    ["asked directly", "psmc dns resolve, new names", "psmc dns resolve, a service with routes"];

const RESOLVER_QUESTIONS: [Question<'_>; 3] = [
    Question { label: "direct", server: NAME_SERVER, file: "address" },
    Question { label: "new", server: RESOLVED, file: "names$run" },
    Question { label: "service", server: RESOLVED, file: "address" },
];

/// Of the name server, and of the resolver.
const NAME_SERVER: &str = "127.0.0.1";
const RESOLVED: &str = "127.0.0.54";

/// Where psmcd finds the service.
const TARGET: &str = "10.1.0.2";

/// What the resolver, and routes, may add, in ms.
const MORE: f64 = 0.1;

/// Of the run.
const RESOLVER_SECONDS: u32 = 35;

pub(super) fn measure_server(setup: &mut Setup<'_>) -> Vec<Row> {
    if !ASKED.iter().any(|(label, _)| setup.wants(label)) {
        return Vec::new();
    }
    let seconds = setup.seconds(SERVER_SECONDS);
    let results = setup.run("server", &server_scenario(seconds));
    let time = |question: &Question<'_>| answered(output(results.as_ref()?, "ask"), question.label);
    let times = ASKED.each_ref().map(|(_, question)| time(question));
    let limit = times[0].map(|original| original + MORE);
    let [enhanced, original] = SERVER;
    let rows = ASKED.iter().zip(times).enumerate();
    rows.map(|(place, ((label, _), time))| {
        let figure = Figure::new(*label, "ms", time);
        match place {
            0 => figure.seed(original).shown(),
            ENHANCED => figure.seed(enhanced).at_most(limit),
            _ => figure.at_most(limit),
        }
    })
    .collect()
}

/// Four servers on one host, which is server_asked there: what a line adds is the same for all.
fn server_scenario(seconds: u32) -> String {
    let addresses: String = ADDRESSES.iter().map(|address| format!(", \"{address}/24\"")).collect();
    let server_files = format!("[\"sh\", \"-c\", '''{}''']", server_files());
    let mut text = format!(
        "duration = \"{seconds}s\"\n\n\
         [[link]]\nname = \"line\"\nbetween = [\"elsewhere\", \"servers\"]\n\
         addresses = [[\"10.1.0.1/24\"], [\"10.1.0.2/24\"{addresses}]]\n\n"
    );
    text += &program("files", "servers", "0s", &server_files);
    for (name, command) in [
        ("bind-plain", r#"["named", "-g", "-n", "1", "-c", "{dir}/bind-plain/named.conf"]"#),
        ("bind-routes", r#"["named", "-g", "-n", "1", "-c", "{dir}/bind-routes/named.conf"]"#),
        ("ours-plain", r#"["psmc-dns", "serve", "{dir}/ours-plain.toml"]"#),
        ("ours-routes", r#"["psmc-dns", "serve", "{dir}/ours-routes.toml"]"#),
    ] {
        text += &program(name, "servers", "1s", command);
    }
    let ready: String = ADDRESSES.map(wait).concat();
    let [_, bind_routes, _, ours_routes] = ADDRESSES;
    text + &format!(
        "[[program]]\nname = \"ask\"\nhost = \"servers\"\nstart = \"2s\"\noutput = true\n\
         command = [\"sh\", \"-c\", '''cd {{dir}}\n{ready}{}{}''']\n",
        publish(&[bind_routes, ours_routes]),
        asked(&ASKED.map(|(_, question)| question)),
    )
}

fn server_files() -> String {
    let [bind_plain, bind_routes, ours_plain, ours_routes] = ADDRESSES;
    let bind = |name: &str, address: &str| {
        format!(
            "mkdir {name}\ncp zone {name}\ncat > {name}/named.conf <<END\ninclude \"{{dir}}/up.key\";\n\
             options {{ directory \"{{dir}}/{name}\"; pid-file none; lock-file none; session-keyfile none; notify no;\n\
             listen-on port 53 {{ {address}; }}; listen-on-v6 {{ none; }}; recursion no; dnssec-validation no; }};\n\
             controls {{ }};\n\
             zone \"example.com\" {{ type primary; file \"zone\"; allow-update {{ key up; }}; }};\nEND\n"
        )
    };
    files(&PrivateKey::generate())
        + &bind("bind-plain", bind_plain)
        + &bind("bind-routes", bind_routes)
        + &ours("ours-plain", ours_plain)
        + &ours("ours-routes", ours_routes)
}

/// Of BIND without routes and with them, and of ours.
const ADDRESSES: [&str; 4] = ["10.1.0.11", "10.1.0.12", "10.1.0.13", "10.1.0.14"];

/// What is server_asked; all is compared with the first.
const ASKED: [(&str, Question<'_>); 5] = [
    ("BIND, no routes", server_asked("bind-plain", ADDRESSES[0], "address")),
    ("BIND, routes beside the address", server_asked("bind-routes", ADDRESSES[1], "address")),
    ("psmc-dns, no routes", server_asked("ours-plain", ADDRESSES[2], "address")),
    ("psmc-dns, routes beside the address", server_asked("ours-routes", ADDRESSES[3], "address")),
    ("psmc-dns, the routes", server_asked("the-routes", ADDRESSES[3], "routes")),
];

const fn server_asked(label: &'static str, server: &'static str, file: &'static str) -> Question<'static> {
    Question { label, server, file }
}

/// The place of what the seed calls the enhanced server.
const ENHANCED: usize = 3;

/// Of the run.
const SERVER_SECONDS: u32 = 45;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_in_the_middle_of_all_runs() {
        let output = "direct 0.000300\nkept 0.000100\ndirect 0.000500\ndirect 0.000400\n";
        let time = answered(output, "direct").unwrap();
        assert!((time - 0.4).abs() < 1e-9, "{time}");
        assert_eq!(answered(output, "kept"), None, "a run is missing");
    }

    #[test]
    fn a_script_finds_the_median_of_answers_that_are_none_of_errors() {
        let script = asked(&[Question { label: "it", server: "server", file: "file" }]);
        let words = "printf '> NOERROR n A 0.3\\n> SERVFAIL n A 0.9\\n> NOERROR n A 0.1\\n> NOERROR n A 0.2\\nend\\n'";
        let script = format!("dnsperf() {{ {words}; }}\n{script}");
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "it 0.2\n".repeat(RUNS as usize));
    }
}
