//! Table 3.5: what it costs to ask by the resolver that finds routes.

use psmc_net::keys::PrivateKey;

use super::super::relayed::network::{daemon, program};
use super::lookup::{self, Question};
use super::output;
use crate::experiment::psmc::RESOLVER;
use crate::experiment::{Figure, Row, Setup};

pub(super) fn measure(setup: &mut Setup<'_>) -> Vec<Row> {
    if !LABELS.iter().any(|label| setup.wants(label)) {
        return Vec::new();
    }
    let seconds = setup.seconds(SECONDS);
    let results = setup.run("resolver", &scenario(seconds));
    let times = QUESTIONS.map(|question| lookup::answered(output(results.as_ref()?, "ask"), question.label));
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
fn scenario(seconds: u32) -> String {
    let [target, client] = [PrivateKey::generate(), PrivateKey::generate()];
    let files = format!("[\"sh\", \"-c\", '''{}''']", files(&target, &client));
    let mut text = format!(
        "duration = \"{seconds}s\"\n\n\
         [[link]]\nname = \"line\"\nbetween = [\"client\", \"target\"]\n\
         addresses = [\"10.1.0.1/24\", \"{TARGET}/24\"]\n\n"
    );
    text += &program("files", "client", "0s", &files);
    text += &program("server", "client", "1s", r#"["psmc-dns", "serve", "{dir}/server.toml"]"#);
    text += &program("at-target", "target", "1s", &daemon("psmcd", "target"));
    text += &program("at-client", "client", "1.5s", &daemon("psmcd", "client"));
    let resolve = r#"["psmc", "dns", "resolve", "run", "{dir}/resolver.toml"]"#;
    text += &program("resolver", "client", "2s", resolve);
    text + &format!(
        "[[program]]\nname = \"ask\"\nhost = \"client\"\nstart = \"2.5s\"\noutput = true\n\
         command = [\"sh\", \"-c\", '''cd {{dir}}\n{}{}{}{READY}{}''']\n",
        lookup::wait(SERVER),
        lookup::publish(&[SERVER]),
        lookup::wait(RESOLVED),
        lookup::asked(&QUESTIONS),
    )
}

fn files(target: &PrivateKey, client: &PrivateKey) -> String {
    let site = |name: &str, inside: &str| {
        format!(
            "cat > {name}.toml <<END\n[site]\nname = \"{name}\"\nprivate_key_file = \"{name}.key\"\n\
             control_socket = \"{{dir}}/{name}.sock\"\naddresses = [\"{inside}/32\"]\nlisten = 5115\n"
        )
    };
    lookup::files(target)
        + &lookup::ours("server", SERVER)
        + &format!(
            "echo {} > target.key\necho {} > client.key\n\
             {}[[peer]]\nname = \"client\"\npublic_key = \"{}\"\nallowed_ips = [\"10.78.0.1/32\"]\nEND\n\
             {}[[peer]]\nname = \"target\"\npublic_key = \"{}\"\nallowed_ips = [\"10.77.0.1/32\"]\n\
             endpoint = \"{TARGET}:5115\"\nEND\n\
             cat > resolver.toml <<END\n[resolver]\nname = \"local\"\nlisten = [\"{RESOLVED}\"]\nupstream = [\"{SERVER}\"]\n\
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

const QUESTIONS: [Question<'_>; 3] = [
    Question { label: "direct", server: SERVER, file: "address" },
    Question { label: "new", server: RESOLVED, file: "names$run" },
    Question { label: "service", server: RESOLVED, file: "address" },
];

/// Of the name server, and of the resolver.
const SERVER: &str = "127.0.0.1";
const RESOLVED: &str = "127.0.0.54";

/// Where psmcd finds the service.
const TARGET: &str = "10.1.0.2";

/// What the resolver may add, in ms.
const MORE: f64 = 0.1;

/// Of the run.
const SECONDS: u32 = 35;
