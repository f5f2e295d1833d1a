//! Instances of BIND 9, all at the addresses of one host, each at a port of its own; and how long commands take that a script
//! gives them.

use std::fmt::Write;

use psmc_net::keys::PrivateKey;

use crate::experiment::psmc::relayed::network::program;

/// Of the first; the others follow.
const PORT: u32 = 5301;

/// Name servers that take updates of the zone example.com.
#[derive(Clone, Copy, Debug)]
pub(super) struct Servers {
    pub(super) number: u32,
    /// Where they run.
    pub(super) host: &'static str,
    /// By which they are reached: the direct way first.
    pub(super) addresses: &'static [&'static str],
}

impl Servers {
    /// The sections of their programs.
    pub(super) fn programs(&self) -> String {
        let files = format!("[\"sh\", \"-c\", '''{}''']", self.script());
        let mut text = program("servers", self.host, "0s", &files);
        for port in self.ports() {
            let command =
                format!("[\"named\", \"-g\", \"-n\", \"1\", \"-c\", \"{{dir}}/named{port}/named.conf\"]");
            text += &program(&format!("named{port}"), self.host, "1s", &command);
        }
        text
    }

    /// A script that makes their files, and those of who updates them.
    fn script(&self) -> String {
        let [secret, service] = [PrivateKey::generate(), PrivateKey::generate()];
        let (first, last) = (PORT, PORT + self.number - 1);
        let listen: String = self.addresses.iter().map(|address| format!("{address}; ")).collect();
        format!(
            "umask 077; cd {{dir}}\n\
             echo 'key up {{ algorithm hmac-sha256; secret \"{}\"; }};' > up.key\n\
             echo {} > service.key\n\
             for port in $(seq {first} {last}); do\n\
             mkdir named$port\n\
             cat > named$port/zone <<END\n{ZONE}END\n\
             cat > named$port/named.conf <<END\n\
             include \"{{dir}}/up.key\";\n\
             options {{ directory \"{{dir}}/named$port\"; pid-file none; lock-file none; session-keyfile none; notify no;\n\
             listen-on port $port {{ {listen}}}; listen-on-v6 {{ none; }}; recursion no; dnssec-validation no; }};\n\
             controls {{ }};\n\
             zone \"example.com\" {{ type primary; file \"zone\"; allow-update {{ key up; }}; }};\n\
             END\n\
             cat > update$port <<END\n\
             server {} $port\nzone example.com\nupdate delete www.example.com A\n\
             update add www.example.com 60 A 203.0.113.6\nsend\n\
             END\n\
             done\n",
            secret.to_base64().as_str(),
            service.to_base64().as_str(),
            self.addresses[0],
        )
    }

    /// Lines of a script that wait until all of them serve, asked over the last way.
    pub(super) fn wait(&self) -> String {
        let asked = self.addresses.last().unwrap_or(&"");
        let mut text = "cd {dir}\n".to_owned();
        for port in self.ports() {
            // To write to a text cannot fail.
            let _ = writeln!(
                text,
                "until dig @{asked} -p {port} +short +tries=1 +time=1 example.com SOA | grep -q '^ns1'; do sleep 0.1; done"
            );
        }
        text
    }

    /// The command that publishes two relays on all of them.
    pub(super) fn publish(&self) -> String {
        let ways = |port| self.addresses.iter().map(move |address| format!("{address}:{port}"));
        let servers = self.ports().map(|port| ways(port).collect::<Vec<_>>().join(","));
        let servers: String = servers.map(|server| format!(" --server {server}")).collect();
        let relays = ["198.51.100.7", "203.0.113.9"];
        let relay = |address| format!(" --relay {address}:5115={}", PrivateKey::generate().public());
        let relays: String = relays.map(relay).concat();
        format!(
            "psmc dns reroute publish www.example.com{servers} --tsig-key up.key --service-key service.key{relays}"
        )
    }

    /// The command that has `nsupdate` change the service's address on all of them over the direct way, until it has or so
    /// many seconds are over.
    pub(super) fn plain_update(&self, seconds: u32) -> String {
        let (first, last, number) = (PORT, PORT + self.number - 1, self.number);
        format!(
            "seq {first} {last} | timeout {seconds} xargs -P {number} -I @ \
             sh -c 'until nsupdate -k up.key update@; do :; done'"
        )
    }

    fn ports(&self) -> impl Iterator<Item = u32> + use<> {
        PORT..PORT + self.number
    }
}

/// Of the service; its dollar is not the shell's.
const ZONE: &str = "\\$TTL 60
@ IN SOA ns1 hostmaster 1 3600 600 86400 60
@ IN NS ns1
ns1 IN A 127.0.0.1
www IN A 203.0.113.5
";

/// Lines of a script that run a command and, if it succeeds, print how long that took, in ns.
pub(super) fn timed(label: &str, command: &str) -> String {
    format!("begin=$(date +%s%N)\nif {command}; then echo \"{label} $(($(date +%s%N) - begin))\"; fi\n")
}

/// What such lines have printed, in s.
pub(super) fn times(output: &str, label: &str) -> Vec<f64> {
    let time = |line: &str| line.strip_prefix(label)?.strip_prefix(' ')?.parse::<f64>().ok();
    output.lines().filter_map(time).map(|ns| ns / 1e9).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_has_a_port_and_all_ways() {
        let servers = Servers { number: 2, host: "target", addresses: &["10.2.0.2", "10.4.0.9"] };
        let publish = servers.publish();
        assert!(
            publish.contains(" --server 10.2.0.2:5301,10.4.0.9:5301 --server 10.2.0.2:5302,10.4.0.9:5302 "),
            "{publish}"
        );
        assert!(servers.plain_update(30).starts_with("seq 5301 5302 | timeout 30 xargs -P 2 "));
        assert_eq!(servers.wait().matches("dig @10.4.0.9 -p 530").count(), 2);
    }

    #[test]
    fn a_script_says_how_long_what_succeeds_takes() {
        let script = timed("slow", "sleep 0.05") + &timed("failed", "false") + &timed("slower", "true");
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        let slow = times(&output, "slow");
        assert!(slow.len() == 1 && slow[0] >= 0.05, "{output}");
        assert_eq!((times(&output, "failed").len(), times(&output, "slower").len()), (0, 1));
    }
}
