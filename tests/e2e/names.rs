//! A hidden service that is found by its name: its routes in DNS, the resolver, and the daemons.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use psmc_api::PathState;
use psmc_resolver::status::{Status, ask};

use crate::harness::{Family, Relayed, Site, wait_for};
use psmc_testbed::programs::program;

/// For what takes no time to speak of.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the name server and the resolver are, in the van.
const SERVER: &str = "127.0.0.1";
const RESOLVER: &str = "127.0.0.54";

const KEY: &str =
    "key up { algorithm hmac-sha256; secret \"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\"; };\n";

/// A name server and a resolver in the van.
struct Names {
    directory: PathBuf,
    server: Child,
    resolver: Child,
}

impl Names {
    /// Starts both: the service's name has the headquarters' address inside the tunnel.
    fn start(van: &Site, hq: &Site) -> Self {
        let directory = van.file("toml").parent().unwrap().to_owned();
        let service = hq.inner(Family::V4);
        write(&directory, "up.key", KEY);
        write(&directory, "service.key", &hq.key.to_base64());
        write(
            &directory,
            "zone",
            &format!(
                "$TTL 1\n@ IN SOA ns1 hostmaster 1 3600 600 86400 1\n@ IN NS ns1\nns1 IN A {SERVER}\nwww IN A {service}\n"
            ),
        );
        let path = directory.display();
        write(
            &directory,
            "dns.toml",
            &format!(
                "[server]\nname = \"ns1\"\nlisten = [\"{SERVER}\"]\ndatabase = \"zones.db\"\n\
                 control_socket = \"{path}/ns1.sock\"\n[[key]]\nfile = \"up.key\"\n\
                 [[zone]]\nname = \"example.com\"\nfile = \"zone\"\nupdate = [\"up\"]\n"
            ),
        );
        write(
            &directory,
            "resolver.toml",
            &format!(
                "[resolver]\nname = \"local\"\nlisten = [\"{RESOLVER}\"]\nupstream = [\"{SERVER}\"]\n\
                 state_directory = \"routes\"\ncontrol_socket = \"{path}/local.sock\"\n\
                 [[service]]\nname = \"www.example.com\"\npublic_key = \"{}\"\npeer = \"hq\"\nsocket = '{}'\n",
                hq.key.public(),
                van.file("sock").display(),
            ),
        );
        let server = start(van, &directory, "psmc-dns", &["serve", "dns.toml"]);
        let resolver = start(van, &directory, "psmc", &["dns", "resolve", "run", "resolver.toml"]);
        Self { directory, server, resolver }
    }

    /// Publishes routes of the service through these relays.
    fn publish(&self, van: &Site, relays: &[String]) {
        let file = |name: &str| self.directory.join(name).display().to_string();
        let (tsig, key) = (file("up.key"), file("service.key"));
        let fixed = ["dns", "reroute", "publish", "www.example.com", "--server", SERVER, "--ttl", "1"];
        let keys = ["--tsig-key", &tsig, "--service-key", &key];
        let relays = relays.iter().flat_map(|relay| ["--relay", relay]);
        let words: Vec<&str> = fixed.into_iter().chain(keys).chain(relays).collect();
        let output = van.namespace.run(|| Command::new(program("psmc")).args(&words).output()).unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    fn status(&self) -> Option<Status> {
        ask(&self.directory.join("local.sock")).ok()
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        for child in [&mut self.server, &mut self.resolver] {
            // It is ours, and its files are about to go.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

fn start(van: &Site, directory: &Path, name: &str, words: &[&str]) -> Child {
    let log = File::create(directory.join(name).with_extension("log")).unwrap();
    let mut command = Command::new(program(name));
    command.args(words).current_dir(directory).stdout(log.try_clone().unwrap()).stderr(log);
    van.namespace.spawn(&mut command).unwrap()
}

fn write(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

/// What the resolver answers for the service.
fn answer(van: &Site) -> String {
    let server = format!("@{RESOLVER}");
    let output = van.try_run(&["dig", &server, "+short", "+tries=1", "+time=5", "www.example.com"]);
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_hidden_service_is_reached_by_its_name_as_soon_as_its_routes_are_published() {
    let mut world = Relayed::prepare(2, None);
    world.start_hidden("", "routes = \"prefer-indirect\"\n", "");
    let (van, hq) = (&world.tunnel.van, &world.tunnel.hq);
    wait_for("registrations", PATIENCE, || {
        let registered = hq.try_status()?.site.registered;
        registered.iter().all(|relay| relay.registered).then_some(())
    });
    let mut names = Names::start(van, hq);
    let service = hq.inner(Family::V4).to_string();
    wait_for("a name without routes", PATIENCE, || (answer(van) == service).then_some(()));
    assert!(!van.try_run(&["ping", "-c", "1", "-W", "1", &service]).status.success());

    let published = Instant::now();
    names.publish(van, &[world.route(0), world.route(1)]);
    for path in ["alt-1", "alt-2"] {
        van.wait_for_path(path, &[PathState::Active], PATIENCE);
    }
    println!("both routes are up {} ms after they were published", published.elapsed().as_millis());
    assert_eq!(answer(van), service);
    world.tunnel.ping(Family::V4);
    let status = names.status().expect("the resolver runs");
    let tunnel = status.services[0].tunnel.expect("psmcd answers");
    assert!(tunnel.usable && tunnel.learned_up && !tunnel.direct_well, "{status:?}");
    assert!(status.services[0].routes.as_ref().is_some_and(|routes| routes.handed), "{status:?}");

    // The routes outlive their name server, the resolver, and psmcd.
    names.server.kill().unwrap();
    names.resolver.kill().unwrap();
    names.resolver.wait().unwrap();
    let Relayed { tunnel, .. } = &mut world;
    tunnel.van.kill();
    tunnel.van.start();
    let van = &world.tunnel.van;
    names.resolver = start(van, &names.directory, "psmc", &["dns", "resolve", "run", "resolver.toml"]);
    wait_for("the resolver", PATIENCE, || names.status());
    wait_for("a question", PATIENCE, || {
        answer(van);
        van.path("alt-1").filter(|path| path.state == PathState::Active)
    });
    world.tunnel.ping(Family::V4);
}
