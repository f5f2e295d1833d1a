//! Networks that want somebody to sign in, and show a page of their own until then.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use psmc_api::PathState;
use psmc_testbed::programs::program;

use crate::harness::{Family, HQ, Nginx, Plan, Site, Tunnel, VAN, path_name, wait_for};

const PATIENCE: Duration = Duration::from_secs(30);

/// The page that the network shows.
const PAGE: &str = "http://login.hotel.example/welcome";

/// The web server of a network, which nobody passes before there is a certain file.
struct Portal {
    _nginx: Nginx,
    free: PathBuf,
}

impl Portal {
    fn start(site: &Site, address: &str) -> Self {
        let folder = Nginx::folder(site);
        let free = folder.join("free");
        let pages = format!(
            "http {{\naccess_log off;\nclient_body_temp_path {0};\nproxy_temp_path {0};\nfastcgi_temp_path {0};\nuwsgi_temp_path {0};\n\
             scgi_temp_path {0};\n\
             server {{ listen {address}; location / {{ if (-f {1}) {{ return 204; }} return 302 {PAGE}; }} }} }}",
            folder.display(),
            free.display()
        );
        Self { _nginx: Nginx::start(site, "", &pages), free }
    }

    fn sign_in(&self) {
        fs::write(&self.free, "").unwrap();
    }
}

#[test]
fn a_captive_portal_is_told_as_such_until_somebody_has_signed_in() {
    let mut tunnel = Tunnel::prepare(Plan { links: 2, ..Plan::default() });
    let address = HQ.outer(1, Family::V4);
    let file = tunnel.van.file("toml");
    let text = fs::read_to_string(&file).unwrap();
    let key = format!("[site]\nportal_check = \"http://{address}:8080/generate_204\"");
    fs::write(&file, text.replacen("[site]", &key, 1)).unwrap();
    let portal = Portal::start(&tunnel.hq, &format!("{address}:8080"));
    let table = format!(
        "table inet hotel {{ chain in {{ type filter hook input priority 0; iif {0} udp dport 5115 drop; iif {0} tcp dport 5115 drop; }}; }}",
        HQ.link(1)
    );
    tunnel.hq.run(&["nft", &table]);
    tunnel.hq.start();
    tunnel.van.start();
    let (van, [captive, open]) = (&tunnel.van, [1, 2].map(|link| path_name(VAN, link)));
    van.wait_for_path(&open, &[PathState::Active], PATIENCE);
    wait_for("the portal", PATIENCE, || van.path(&captive).filter(|path| path.portal.is_some()).map(drop));
    let paths = [&captive, &open].map(|name| van.path(name).unwrap());
    assert_eq!(paths.each_ref().map(|path| path.portal.as_deref()), [Some(PAGE), None]);
    let why = paths[0].why.clone().unwrap();
    assert!(why.contains("captive portal") && why.contains(PAGE), "{why}");
    let told = |said: Output| String::from_utf8(said.stdout).unwrap();
    assert!(told(van.psmc(&["status"])).contains(PAGE));
    let mut doctor = Command::new(program("psmc"));
    doctor.arg("doctor").arg(&file).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let said = told(van.namespace.spawn(&mut doctor).unwrap().wait_with_output().unwrap());
    assert!(said.contains("captive-portal") && said.contains(PAGE), "{said}");
    assert!(!said.contains("udp-blocked") && !said.contains("peer-unreachable"), "{said}");
    portal.sign_in();
    tunnel.hq.run(&["nft", "delete table inet hotel"]);
    van.wait_for_path(&captive, &[PathState::Active], PATIENCE);
    wait_for("no portal", PATIENCE, || van.path(&captive).filter(|path| path.portal.is_none()).map(drop));
}
