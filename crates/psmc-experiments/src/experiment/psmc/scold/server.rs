//! Table 3.6: what routes in a zone cost whoever asks for an address.

use super::super::relayed::network::program;
use super::lookup::{self, Question};
use super::output;
use crate::experiment::psmc::SERVER;
use crate::experiment::{Figure, Row, Setup};
use psmc_net::keys::PrivateKey;

pub(super) fn measure(setup: &mut Setup<'_>) -> Vec<Row> {
    if !ASKED.iter().any(|(label, _)| setup.wants(label)) {
        return Vec::new();
    }
    let seconds = setup.seconds(SECONDS);
    let results = setup.run("server", &scenario(seconds));
    let time = |question: &Question<'_>| lookup::answered(output(results.as_ref()?, "ask"), question.label);
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

/// Four servers on one host, which is asked there: what a line adds is the same for all.
fn scenario(seconds: u32) -> String {
    let addresses: String = ADDRESSES.iter().map(|address| format!(", \"{address}/24\"")).collect();
    let files = format!("[\"sh\", \"-c\", '''{}''']", files());
    let mut text = format!(
        "duration = \"{seconds}s\"\n\n\
         [[link]]\nname = \"line\"\nbetween = [\"elsewhere\", \"servers\"]\n\
         addresses = [[\"10.1.0.1/24\"], [\"10.1.0.2/24\"{addresses}]]\n\n"
    );
    text += &program("files", "servers", "0s", &files);
    for (name, command) in [
        ("bind-plain", r#"["named", "-g", "-n", "1", "-c", "{dir}/bind-plain/named.conf"]"#),
        ("bind-routes", r#"["named", "-g", "-n", "1", "-c", "{dir}/bind-routes/named.conf"]"#),
        ("ours-plain", r#"["psmc-dns", "serve", "{dir}/ours-plain.toml"]"#),
        ("ours-routes", r#"["psmc-dns", "serve", "{dir}/ours-routes.toml"]"#),
    ] {
        text += &program(name, "servers", "1s", command);
    }
    let ready: String = ADDRESSES.map(lookup::wait).concat();
    let [_, bind_routes, _, ours_routes] = ADDRESSES;
    text + &format!(
        "[[program]]\nname = \"ask\"\nhost = \"servers\"\nstart = \"2s\"\noutput = true\n\
         command = [\"sh\", \"-c\", '''cd {{dir}}\n{ready}{}{}''']\n",
        lookup::publish(&[bind_routes, ours_routes]),
        lookup::asked(&ASKED.map(|(_, question)| question)),
    )
}

fn files() -> String {
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
    lookup::files(&PrivateKey::generate())
        + &bind("bind-plain", bind_plain)
        + &bind("bind-routes", bind_routes)
        + &lookup::ours("ours-plain", ours_plain)
        + &lookup::ours("ours-routes", ours_routes)
}

/// Of BIND without routes and with them, and of ours.
const ADDRESSES: [&str; 4] = ["10.1.0.11", "10.1.0.12", "10.1.0.13", "10.1.0.14"];

/// What is asked; all is compared with the first.
const ASKED: [(&str, Question<'_>); 5] = [
    ("BIND, no routes", asked("bind-plain", ADDRESSES[0], "address")),
    ("BIND, routes beside the address", asked("bind-routes", ADDRESSES[1], "address")),
    ("psmc-dns, no routes", asked("ours-plain", ADDRESSES[2], "address")),
    ("psmc-dns, routes beside the address", asked("ours-routes", ADDRESSES[3], "address")),
    ("psmc-dns, the routes", asked("the-routes", ADDRESSES[3], "routes")),
];

const fn asked(label: &'static str, server: &'static str, file: &'static str) -> Question<'static> {
    Question { label, server, file }
}

/// The place of what the seed calls the enhanced server.
const ENHANCED: usize = 3;

/// What routes may add, in ms.
const MORE: f64 = 0.1;

/// Of the run.
const SECONDS: u32 = 45;
