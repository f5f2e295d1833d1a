//! How long a question takes, as a script asks it with `dnsperf`: one after the other, the median of all.

use std::fmt::Write;

use psmc_net::keys::PrivateKey;

use super::RUNS;
use psmc_lab::bench::median;

/// A question that is asked for a while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    /// What the time is called.
    pub(super) label: &'a str,
    pub(super) server: &'a str,
    /// Of the questions; the file is in the directory of the run. `$run` in it stands for the turn, from 1.
    pub(super) file: &'a str,
}

/// Lines of a script that ask all of them in turns, as often as everything is measured. Answers that are errors do not count.
pub(super) fn asked(questions: &[Question<'_>]) -> String {
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
pub(super) fn answered(output: &str, label: &str) -> Option<f64> {
    let time = |line: &str| line.strip_prefix(label)?.strip_prefix(' ')?.parse::<f64>().ok();
    let times: Vec<f64> = output.lines().filter_map(time).collect();
    median((0..RUNS as usize).map(|run| times.get(run).map(|s| s * 1e3)))
}

/// Lines of a script that make the keys of updaters and of the service, a zone, and files of questions: for the service's
/// address, for its routes, and for names that all differ, others in each turn.
pub(super) fn files(service: &PrivateKey) -> String {
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
pub(super) fn ours(name: &str, address: &str) -> String {
    format!(
        "cat > {name}.toml <<END\n[server]\nname = \"{name}\"\nlisten = [\"{address}\"]\ndatabase = \"{name}.db\"\n\
         control_socket = \"{{dir}}/{name}.sock\"\nrate_limit = 1000000\n[[key]]\nfile = \"up.key\"\n\
         [[zone]]\nname = \"example.com\"\nfile = \"zone\"\nupdate = [\"up\"]\nEND\n"
    )
}

/// A line of a script that waits until a server answers.
pub(super) fn wait(address: &str) -> String {
    format!(
        "until dig @{address} +short +tries=1 +time=1 www.example.com A | grep -q '^203'; do sleep 0.1; done\n"
    )
}

/// A command that publishes routes on these servers.
pub(super) fn publish(servers: &[&str]) -> String {
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
