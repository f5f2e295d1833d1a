//! The web page in a real browser: Chromium, without a window.
//!
//! `UPDATE_SCREENSHOTS=1 cargo test --test e2e web` makes the pictures in `docs/web` anew.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use psmc_api::PathState;

use crate::harness::{Browser, Family, Flows, HQ, Plan, Screen, Site, Tunnel, VAN, path_name, wait_for};

/// Where the van's page is, without a token.
const PAGE: &str = "127.0.0.1:9116";

const TOKEN: &str = "a-word/that=is+long";

/// As it stands in an address.
const ENCODED_TOKEN: &str = "a-word%2Fthat%3Dis%2Blong";

const PATIENCE: Duration = Duration::from_secs(30);

const DESKTOP: Screen = Screen { width: 1000, height: 1220, scheme: "light" };
const DARK: Screen = Screen { width: 1000, height: 760, scheme: "dark" };
/// A small telephone.
const TELEPHONE: Screen = Screen { width: 360, height: 1000, scheme: "light" };

/// Who is let in to a page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// Everybody.
    Open,
    /// Who has the token, to look.
    Token,
    /// Who has the token, to change paths as well.
    Orders,
}

/// A tunnel whose van has a page at this address.
fn tunnel(plan: Plan, listen: &str, entry: Entry) -> Tunnel {
    let mut tunnel = Tunnel::prepare(plan);
    let text = fs::read_to_string(tunnel.van.file("toml")).unwrap();
    let mut web = format!("[web]\nlisten = \"{listen}\"\n");
    if entry != Entry::Open {
        let file = tunnel.van.file("token");
        fs::write(&file, TOKEN).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        web += &format!("token_file = '{}'\n", file.display());
    }
    if entry == Entry::Orders {
        web += "orders = true\n";
    }
    tunnel.van.configure(&format!("{text}\n{web}"));
    tunnel.hq.start();
    tunnel.van.start();
    tunnel.wait_until_up();
    tunnel
}

/// A browser that shows the page of the van.
fn browser(tunnel: &Tunnel) -> Browser {
    let mut browser = Browser::start(&tunnel.van);
    browser.open(&format!("http://{PAGE}/"));
    browser
}

/// A browser that shows the page of the van, on which paths can be changed.
fn ordering_browser(tunnel: &Tunnel) -> Browser {
    let mut browser = Browser::start(&tunnel.van);
    browser.open(&format!("http://{PAGE}/?token={ENCODED_TOKEN}"));
    browser.wait_until("controls", "document.querySelectorAll('.orders:not([hidden]) button').length === 2");
    browser
}

/// Whether the row of a path says that it is in one of these states.
fn is_in_state(path: &str, states: &[&str]) -> String {
    format!(
        "[...document.querySelectorAll('#rows tr')].some((row) => \
         row.name.textContent === '{path}' && {states:?}.includes(row.querySelector('b').textContent))"
    )
}

#[test]
fn a_browser_shows_paths_and_what_becomes_of_them() {
    let tunnel = tunnel(Plan::default(), PAGE, Entry::Open);
    let mut browser = browser(&tunnel);
    let [first, second] = [1, 2].map(|link| path_name(VAN, link));
    for path in [&first, &second] {
        browser.wait_until("an active path", &is_in_state(path, &["active"]));
    }
    assert_eq!(browser.evaluate("document.getElementById('site').textContent"), "van");
    let peer = browser.evaluate("document.querySelector('#peers button').textContent");
    assert!(peer.as_str().unwrap().starts_with("hq connected"), "{peer}");
    tunnel.ping(Family::V4);
    browser.wait_until("classes", "document.querySelector('#classes').textContent.includes('packets')");
    browser.wait_until(
        "a measured path",
        "document.querySelector('[data-name=RTT]').textContent.endsWith(' ms')",
    );
    browser.wait_until(
        "a plot of both paths",
        "plots[2].paths.children.length === 2 && greatest(shownPasts().map((past) => past.rings.rtt_ms)) > 0",
    );

    tunnel.hq.namespace.set_link(&HQ.link(1), false).unwrap();
    tunnel.van.wait_for_path(&first, &[PathState::Suspect, PathState::Dead], PATIENCE);
    browser.wait_until("the path's end", &is_in_state(&first, &["suspect", "dead"]));
    let event =
        format!("document.getElementById('events').textContent.includes('hq: path {first}: active → ')");
    browser.wait_until("an event about it", &event);
    assert_eq!(browser.evaluate(&is_in_state(&second, &["active"])), true);
    tunnel.hq.namespace.set_link(&HQ.link(1), true).unwrap();
    tunnel.van.wait_for_path(&first, &[PathState::Active], PATIENCE);
    browser.wait_until("the path's return", &is_in_state(&first, &["active"]));
    assert_eq!(browser.complaints(), [""; 0]);
    // What the page's policy forbids would have been told.
    browser.evaluate("document.body.append(Object.assign(new Image(), { src: 'http://127.0.0.2/' })); 0");
    wait_for("what is wrong with that", PATIENCE, || {
        browser.complaints().concat().contains("Content Security Policy").then_some(())
    });
}

#[test]
fn a_daemon_that_goes_away_is_told_of_and_waited_for() {
    let mut tunnel = tunnel(Plan::default(), PAGE, Entry::Open);
    let mut browser = browser(&tunnel);
    browser.wait_until("paths", "document.querySelectorAll('#rows tr').length === 2");
    tunnel.van.terminate();
    browser.wait_until(
        "the daemon's end",
        "!at('silence').hidden && at('silence').textContent.startsWith('no answer since ')",
    );
    let run = browser.evaluate("known.run");
    tunnel.van.start();
    browser.wait_until("the daemon's return", &format!("at('silence').hidden && known.run !== {run}"));
}

#[test]
fn it_fits_every_screen_in_both_colour_schemes() {
    let tunnel = tunnel(Plan::default(), PAGE, Entry::Orders);
    let mut browser = ordering_browser(&tunnel);
    let mut grounds = Vec::new();
    for (name, screen) in [("light", DESKTOP), ("dark", DARK), ("telephone", TELEPHONE)] {
        browser.show_on(screen);
        browser.evaluate(INVENTED);
        let widths = browser.evaluate("[document.documentElement.scrollWidth, innerWidth]");
        assert_eq!(widths, serde_json::json!([screen.width, screen.width]), "{name}");
        let contrasts = browser.evaluate(CONTRASTS);
        assert_eq!(contrasts, serde_json::json!([]), "{name}: text that is hard to read");
        grounds.push(browser.evaluate("getComputedStyle(document.body).backgroundColor"));
        let picture = browser.picture();
        assert!(picture.len() > 5000, "{name}: an empty picture");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/web/{name}.webp"));
        if std::env::var_os("UPDATE_SCREENSHOTS").is_some() {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, picture).unwrap();
        }
        assert!(file.exists(), "see the top of tests/e2e/web.rs for how to make {}", file.display());
    }
    assert_eq!(grounds[0], grounds[2]);
    assert_ne!(grounds[0], grounds[1]);
    assert_eq!(browser.complaints(), [""; 0]);
}

/// Shows what this machine has no hour for: invented values of three paths, by the page's own functions.
const INVENTED: &str = r#"
(async () => {
  watch = () => {}; poll = async () => {};
  const state = await ask("api/state?peer=hq&events=0");
  const names = [["dsl", 42, 11, 18.4, "ppp0"], ["lte", 23, 9, 41.7, "wwan0"], ["starlink", 88, 14, 33.2, "eth2"]];
  const paths = names.map(([name, down, up, rtt, dev], index) => ({
    ...state.peer.paths[0], name, id: index, interface: dev, uplink: dev, state: "active", since_s: 5230, rtt_ms: rtt,
    loss_pct: [0, 0.8, 0.2][index], remote: "203.0.113.5:5115", weight: 1, mtu: [1492, 1430, 1500][index],
  }));
  Object.assign(paths[1], { state: "suspect", since_s: 2, why: "silent for 80 ms" });
  const wave = (n, index, most) => Math.max(0, most * (0.7 + 0.2 * Math.sin(n / 60 + index) + 0.06 * Math.sin(n / (9 + index)) + 0.03 * Math.sin(n / 2 + index)));
  const gone = (n, index) => index === 1 && n > 380 && n < 430;
  const series = (index, of) => Array.from({ length: 720 }, (_, n) => (gone(n, index) ? null : of(n)));
  const part = { first: 0, count: 720, next: 720, interval_s: 5, paths: names.map(([name, down, up, rtt], index) => ({
    name, is_own: true,
    up_mbps: series(index, (n) => wave(n, index, up)), down_mbps: series(index, (n) => wave(n, index, down)),
    rtt_ms: series(index, (n) => wave(n, index, rtt)), loss_pct: series(index, (n) => Math.max(0, wave(n, index, 1) - 0.75)),
  })) };
  const at = Date.UTC(2026, 4, 12, 14, 32, 10);
  const events = [
    { at: at - 2400000, what: "peer hq: connecting → connected" },
    { at: at - 1700000, what: "hq: path lte: active → dead (silent for 5 s)" },
    { at: at - 1450000, what: "hq: path lte: dead → active" },
    { at, what: "hq: path lte: active → suspect (silent for 80 ms)" },
  ];
  const peer = { ...state.peer, paths, classes: [
    { name: "voice", queued_packets: 0, queued_bytes: 0, tx_packets: 9, marked_packets: 0, drops: {} },
    { name: "best-effort", queued_packets: 38, queued_bytes: 52100, tx_packets: 9, marked_packets: 0, drops: {} },
  ] };
  known.run = undefined;
  for (let second = 0; second < 60; second++) {
    const rates = {
      traffic: { up_mbps: 31.4, down_mbps: 148.2 }, classes: { voice: 50, "best-effort": 13120 },
      repair: { resent: 14.2, tx_copies: 50 },
      paths: Object.fromEntries(names.map(([, down, up], index) => [index, {
        up_mbps: wave(second * 2, index, up), down_mbps: wave(second * 2, index, down) }])),
    };
    update({ ...state, run: 1, site: { ...state.site, uptime_s: 93000 }, peer, rates, events: second ? [] : events, event_count: 4,
      peers: [{ name: "hq", state: "connected", traffic: rates.traffic }, { name: "depot", state: "connecting", traffic: null }] });
  }
  addHistory(part);
})()"#;

/// Texts whose contrast to what is behind them is less than 4.5 (WCAG 2.2, 1.4.3).
const CONTRASTS: &str = r#"
(() => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\d.]+/g).slice(0, 3).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (!/, 0\)$/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    const isText = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!isText || node.closest("svg, noscript, [hidden]")) continue;
    const [one, two] = [light(getComputedStyle(node).color), light(behind(node))];
    const contrast = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    if (contrast < 4.5) poor.push(`${node.textContent}: ${contrast.toFixed(2)}`);
  }
  return poor;
})()"#;

/// An hour of updates, in moments: once a second an answer, and once in five a sample.
const HOUR: &str = r#"
(async () => {
  const state = await ask("api/state?peer=hq&events=0");
  const { paths } = state.peer;
  for (let second = 0; second < 3600; second++) {
    const rates = { paths: Object.fromEntries(paths.map(({ id }) => [id, { up_mbps: second % 50, down_mbps: id }])), classes: {}, repair: {} };
    const peer = { ...state.peer, paths: paths.map((path) => ({ ...path, since_s: second, rtt_ms: 10 + second % 7 })) };
    const events = second % 600 ? [] : [{ at: second * 1000, what: `event ${second}` }];
    update({ ...state, peer, rates, events, event_count: known.eventCount + events.length });
    if (second % 5 === 0) {
      const pasts = paths.map(({ name }) => ({ name, is_own: true, up_mbps: [second % 50], down_mbps: [1], rtt_ms: [10], loss_pct: [0] }));
      addHistory({ first: known.nextSample, count: 1, next: known.nextSample + 1, interval_s: 5, paths: pasts });
    }
    if (second % 1000 === 0) await new Promise((resolve) => setTimeout(resolve));
  }
})()"#;

/// Hours of updates, in moments: by the page's own functions.
const UPDATES: &str = r#"
(async () => {
  globalThis.pollOnce ??= poll;
  watch = () => {}; poll = async () => {};
  // Some are asked for, as long as the page is open.
  for (let count = 0; count < 200; count++) {
    const paused = pause();
    lookAgain();
    await paused;
    await pollOnce();
  }
  const state = await ask("api/state?peer=hq&events=0");
  const path = state.peer.paths[0];
  for (let count = 0; count < 1300; count++) {
    // As many paths as there can be come and go, under new names, and something happens all the time.
    const paths = Array.from({ length: count % 65 }, (_, index) => ({ ...path, id: index, name: `path${count % 7}-${index}` }));
    const peers = Array.from({ length: 1 + count % 9 }, (_, index) => ({ name: `peer${index}`, state: "down", traffic: null }));
    const events = [{ at: count, what: `event ${count}` }];
    const rates = { paths: Object.fromEntries(paths.map(({ id }) => [id, { up_mbps: count, down_mbps: id }])), classes: {}, repair: {} };
    update({ ...state, peers, peer: { ...state.peer, paths }, rates, events, event_count: count });
    if (count % 10 === 0) {
      const nothing = Array(1).fill(null);
      const pasts = paths.map(({ name }) => ({ name, is_own: true, up_mbps: [count], down_mbps: nothing, rtt_ms: nothing, loss_pct: nothing }));
      addHistory({ first: known.nextSample, count: 1, next: known.nextSample + 1, interval_s: 5, paths: pasts });
    }
  }
  // The last one is always the same.
  update({ ...state, events: [] });
  addHistory({ first: known.nextSample, count: 0, next: known.nextSample, interval_s: 5, paths: [] });
})()"#;

/// How long a page is left open: `PAGE_HOURS=24` makes it a day, which takes minutes.
fn hours() -> u32 {
    std::env::var("PAGE_HOURS").map_or(1, |hours| hours.parse().unwrap())
}

#[test]
fn a_page_that_is_left_open_does_not_grow() {
    let tunnel = tunnel(Plan::default(), PAGE, Entry::Open);
    let mut browser = browser(&tunnel);
    browser.wait_until("paths", "document.querySelectorAll('#rows tr').length === 2");
    let mut sizes = Vec::new();
    // Everything has been there before it counts.
    for hours in [0, 1, hours()] {
        (0..hours).for_each(|_| drop(browser.evaluate(HOUR)));
        browser.evaluate(UPDATES);
        let lists = "[document.getElementsByTagName('*').length, known.events.length, known.minutes.size, known.pasts.size, \
                     [...known.minutes.values()].reduce((sum, ring) => sum + ring.size, 0)]";
        // With nodes that are in the document no more, but are kept by somebody.
        let [nodes, listeners, heap] =
            ["Nodes", "JSEventListeners", "JSHeapUsedSize"].map(|name| browser.metric(name));
        println!("nodes {nodes}, listeners {listeners}, heap {heap}");
        sizes.push((browser.evaluate(lists), nodes, listeners, heap));
    }
    let [_, (lists, nodes, listeners, heap), (lists_now, nodes_now, listeners_now, heap_now)] = &sizes[..]
    else {
        panic!()
    };
    assert_eq!(lists_now, lists);
    assert_eq!(lists_now[1], 100, "as many events as are listed");
    assert_eq!((nodes_now, listeners_now), (nodes, listeners));
    assert!(*heap_now < heap * 1.1, "{heap_now} bytes after {heap}");
    assert_eq!(browser.complaints(), [""; 0]);
}

/// The status and the head with which the van's page answers `curl`, called from a site.
fn curl(site: &Site, address: &str, options: &[&str]) -> (u16, String) {
    let url = format!("http://{address}");
    let answer = site.run(&[&["curl", "-s", "-o", "/dev/null", "-D", "-", &url], options].concat());
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("{address}: {answer}")), answer.to_ascii_lowercase())
}

#[test]
fn only_known_hosts_and_readers_are_answered() {
    let tunnel = tunnel(Plan::default(), PAGE, Entry::Open);
    let ask = |path: &str, options: &[&str]| curl(&tunnel.van, &format!("{PAGE}{path}"), options);
    let (status, head) = ask("/", &[]);
    assert_eq!(status, 200, "{head}");
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self';",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
        "referrer-policy: no-referrer",
    ] {
        assert!(head.contains(header), "{header}: {head}");
    }
    assert!(!head.contains("access-control-allow-origin"), "{head}");
    assert_eq!(ask("/", &["--head"]).0, 200);
    assert_eq!(ask("/nothing", &[]).0, 404);
    for host in ["Host: attacker.example", "Host: 127.0.0.1.attacker.example:9116", "Host:"] {
        assert_eq!(ask("/api/state", &["-H", host]).0, 421, "{host}");
    }
    for path in ["/", "/api/state", "/api/history"] {
        let (status, head) = ask(path, &["-X", "POST", "-H", "Origin: http://attacker.example", "-d", "{}"]);
        assert!(status == 405 && head.contains("allow: get,head"), "{path}: {head}");
    }
    // Elsewhere nothing listens.
    let address = VAN.outer(1, Family::V4);
    let elsewhere = tunnel.hq.try_run(&["curl", "-s", "-m", "5", &format!("http://{address}:9116/")]);
    assert!(!elsewhere.status.success(), "{elsewhere:?}");
}

#[test]
fn a_token_lets_in_through_the_tunnel() {
    let listen = format!("{}:9116", VAN.inner(Family::V4));
    let tunnel = tunnel(Plan::default(), &listen, Entry::Token);
    let ask = |path: &str, options: &[&str]| curl(&tunnel.hq, &format!("{listen}{path}"), options);
    for path in ["/", "/page.js", "/api/state", "/?token=another-word-that-is-long", "/nothing"] {
        let (status, head) = ask(path, &[]);
        assert!(status == 401 && head.contains("www-authenticate: bearer"), "{path}: {head}");
        assert!(!head.contains("set-cookie"), "{path}: {head}");
    }
    assert_eq!(ask("/", &["-X", "POST"]).0, 401);
    assert_eq!(ask("/api/state", &["-H", &format!("Authorization: Bearer {TOKEN}")]).0, 200);
    let (status, head) = ask(&format!("/?token={ENCODED_TOKEN}"), &[]);
    assert!(status == 200 && head.contains("set-cookie: psmc-9116="), "{head}");
    assert!(!head.contains("a-word") && !head.contains("a%2dword"), "the cookie is no token: {head}");
    assert!(head.contains("httponly; samesite=strict"), "{head}");

    let mut browser = Browser::start(&tunnel.hq);
    browser.open(&format!("http://{listen}/?token={ENCODED_TOKEN}"));
    browser.wait_until("paths", "document.querySelectorAll('#rows tr').length === 2");
    assert_eq!(browser.evaluate("[location.search, document.cookie]"), serde_json::json!(["", ""]));
    assert_eq!(browser.complaints(), [""; 0]);
    browser.open(&format!("http://{listen}/#hq"));
    browser.wait_until("paths without the token", "document.querySelectorAll('#rows tr').length === 2");
    assert_eq!(browser.evaluate("localStorage.length"), 0, "a token that nobody needs is not kept");
    assert!(!tunnel.van.log().contains(TOKEN), "the log has the token");
}

/// What changes a path, as an expression of the page.
fn control(path: &str, tag: &str) -> String {
    format!(
        "[...document.querySelectorAll('#rows tr')].find((row) => row.name.textContent === '{path}').querySelector('.orders {tag}')"
    )
}

#[test]
fn paths_are_changed_by_mouse_and_by_keyboard() {
    let tunnel = tunnel(Plan::default(), PAGE, Entry::Orders);
    let mut browser = ordering_browser(&tunnel);
    assert_eq!(browser.evaluate("[location.search, at('access').textContent]"), serde_json::json!(["", ""]));
    let [first, second] = [1, 2].map(|link| path_name(VAN, link));
    let names = [&first, &second].map(|path| format!("weight of {path}"));
    assert_eq!(browser.names_of("spinbutton"), names);
    let buttons = browser.names_of("button");
    for path in [&first, &second] {
        assert!(buttons.contains(&format!("standby for {path}")), "{buttons:?}");
    }

    browser.show_on(TELEPHONE);
    browser.click(&control(&first, "button"));
    tunnel.van.wait_for_path(&first, &[PathState::Standby], PATIENCE);
    browser.wait_until("that on the page", &is_in_state(&first, &["standby"]));
    browser.wait_until("what became of it", &format!("at('told').textContent === '{first}: standby: done'"));
    assert!(browser.names_of("button").contains(&format!("activate {first}")));

    // From its weight, a Tab away.
    browser.click(&control(&first, "input"));
    browser.press("Tab", 9);
    browser.press("Enter", 13);
    tunnel.van.wait_for_path(&first, &[PathState::Active], PATIENCE);

    browser.click(&control(&second, "input"));
    browser.evaluate("document.activeElement.select()");
    browser.type_text("7");
    browser.press("Enter", 13);
    wait_for("the weight", PATIENCE, || tunnel.van.path(&second).filter(|path| path.weight == 7));
    browser.press("ArrowUp", 38);
    wait_for("the weight and one", PATIENCE, || tunnel.van.path(&second).filter(|path| path.weight == 8));
    let seen = browser.evaluate(&LATE.replace("PATH", &second));
    assert_eq!(seen, serde_json::json!(["9"]), "an answer from before the order is not shown");
    browser.evaluate("document.activeElement.select()");
    browser.type_text("1001");
    browser.press("Enter", 13);
    browser.wait_until("the refusal", "at('told').textContent.includes('1001 is not a weight')");
    browser.wait_until("the weight as it is", &format!("{}.value === '9'", control(&second, "input")));
    assert_eq!(browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), true);
    let log = tunnel.van.log();
    let line = log.lines().find(|line| line.contains("path changed by the web page"));
    assert!(line.is_some_and(|line| line.contains("from=\"127.0.0.1:") && line.contains(&first)), "{line:?}");
    assert!(!log.contains(TOKEN), "the log has the token");
    // The browser tells of the order that was refused.
    let complaints = browser.complaints();
    assert!(complaints.len() == 1 && complaints[0].contains("422"), "{complaints:?}");
}

/// Orders a weight while an answer is on its way that was asked for before: what the field of the weight has from then on.
const LATE: &str = r##"
(async () => {
  const real = fetch;
  let release, hold;
  const [released, held] = [new Promise((resolve) => { release = resolve; }), new Promise((resolve) => { hold = resolve; })];
  fetch = async (address, options) => {
    const answer = await real(address, options);
    if (!address.startsWith("api/state")) return answer;
    hold();
    await released;
    return answer;
  };
  await held;
  const field = [...document.querySelectorAll("#rows tr")].find((row) => row.name.textContent === "PATH").controls.weight;
  field.value = "9";
  await order("hq", "PATH", { weight: 9 });
  fetch = real;
  release();
  const seen = new Set();
  for (let count = 0; count < 100; count++) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    seen.add(field.value);
  }
  return [...seen];
})()"##;

/// How many controls there are to be seen.
const CONTROLS: &str = "[document.querySelectorAll('#rows tr').length, document.querySelectorAll('.orders:not([hidden])').length, \
                        at('change').hidden]";

#[test]
fn without_a_token_a_page_changes_nothing_and_says_why() {
    let closed = tunnel(Plan::default(), PAGE, Entry::Open);
    let mut reader = browser(&closed);
    reader.wait_until("paths", "document.querySelectorAll('#rows tr').length === 2");
    assert_eq!(reader.evaluate(CONTROLS), serde_json::json!([2, 0, true]));
    reader.wait_until("the reason", "at('access').textContent.includes('orders = true')");
    drop((reader, closed));

    let tunnel = tunnel(Plan::default(), PAGE, Entry::Orders);
    let mut browser = ordering_browser(&tunnel);
    // The browser has the cookie, and has been told to forget the rest.
    browser.evaluate("localStorage.clear()");
    browser.open("about:blank");
    browser.open(&format!("http://{PAGE}/"));
    browser.wait_until("paths", "document.querySelectorAll('#rows tr').length === 2");
    assert_eq!(browser.evaluate(CONTROLS), serde_json::json!([2, 0, true]));
    browser.wait_until("the reason", "at('access').textContent.includes('?token=')");
    // A token that is not right any more is not kept.
    browser.evaluate("localStorage.setItem(KEPT, 'another-word-that-is-long')");
    browser.open("about:blank");
    browser.open(&format!("http://{PAGE}/"));
    browser.wait_until("controls", "document.querySelectorAll('.orders:not([hidden]) button').length === 2");
    browser.click(&control(&path_name(VAN, 1), "button"));
    browser.wait_until("the refusal", "at('told').textContent.includes('token is not accepted')");
    browser.wait_until("no controls", "at('change').hidden && localStorage.length === 0");
    assert_eq!(tunnel.van.path(&path_name(VAN, 1)).unwrap().state, PathState::Active);
}

/// What the van's page answers to an order: the status and the reason.
fn send(site: &Site, address: &str, body: &str, options: &[&str]) -> (u16, String) {
    let url = format!("http://{address}/api/path");
    let command = ["curl", "-s", "-w", "\n%{http_code}", "-d", body, &url];
    let answer = site.run(&[&command[..], options].concat());
    let (body, status) = answer.rsplit_once('\n').unwrap();
    let reason = match body {
        "" => String::new(),
        body => serde_json::from_str::<serde_json::Value>(body)
            .unwrap_or_else(|error| panic!("{error}: {body}"))["error"]
            .as_str()
            .unwrap()
            .to_owned(),
    };
    (status.parse().unwrap(), reason)
}

#[test]
fn orders_are_taken_from_the_page_and_from_who_has_the_token_only() {
    let tunnel = tunnel(Plan::default(), PAGE, Entry::Orders);
    let path = path_name(VAN, 1);
    let right = format!(r#"{{"peer":"hq","path":"{path}","weight":3}}"#);
    let (bearer, json) = (format!("Authorization: Bearer {TOKEN}"), "Content-Type: application/json");
    let (_, head) = curl(&tunnel.van, &format!("{PAGE}/?token={ENCODED_TOKEN}"), &[]);
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = format!("Cookie: {}", cookie.split(';').next().unwrap());
    let all = ["-H", &bearer, "-H", json];
    let with = |more: &[&'static str]| [&["-H", bearer.as_str(), "-H", json], more].concat();
    let long = format!("{}{}", right, " ".repeat(4096));
    for (body, options, status, part) in [
        (&right, vec!["-H", json], 401, "the token is missing or wrong"),
        (
            &right,
            vec!["-H", "Authorization: Bearer another-word-that-is-long", "-H", json],
            401,
            "missing or wrong",
        ),
        (&right, vec!["-H", &cookie, "-H", json], 403, "a cookie is enough for reading only"),
        (&right, with(&["-H", "Host: attacker.example"]), 421, "not by another name"),
        (&right, with(&["-H", "Origin: http://127.0.0.1:8080"]), 403, "another page"),
        (&right, with(&["-H", "Origin: null"]), 403, "another page"),
        (&right, with(&["-H", "Sec-Fetch-Site: same-site"]), 403, "another page"),
        (&right, vec!["-H", &bearer], 415, "application/json"),
        (&right, vec!["-H", &bearer, "-H", "Content-Type: text/plain"], 415, "application/json"),
        (&right, with(&["-X", "PUT"]), 405, "POST"),
        (&right, with(&["-X", "GET"]), 405, "POST"),
        (&long, all.to_vec(), 413, "2048 bytes at most"),
        (&"{".to_owned(), all.to_vec(), 400, "this is no order"),
        (&right.replace("\"weight\":3", "\"weight\":0"), all.to_vec(), 422, "0 is not a weight"),
        (&right.replace("hq", "nobody"), all.to_vec(), 404, "nobody"),
        (&right.replace(path.as_str(), "nothing"), all.to_vec(), 404, "nothing"),
    ] {
        let (refused, reason) = send(&tunnel.van, PAGE, body, &options);
        assert!(refused == status && reason.contains(part), "{options:?} {body}: {refused}, {reason}");
    }
    assert_eq!(tunnel.van.path(&path).unwrap().weight, 1);
    for options in [with(&[]), with(&["-H", "Origin: http://127.0.0.1:9116"])] {
        assert_eq!(send(&tunnel.van, PAGE, &right, &options), (204, String::new()), "{options:?}");
    }
    assert_eq!(tunnel.van.path(&path).unwrap().weight, 3);

    // Nobody can try out tokens, and there is room for others all the while.
    let wrong = ["-H", "Authorization: Bearer another-word-that-is-long", "-H", json];
    let statuses: Vec<_> = (0..12).map(|_| send(&tunnel.van, PAGE, &right, &wrong).0).collect();
    assert!(statuses.starts_with(&[401; 5]) && statuses.ends_with(&[429; 2]), "{statuses:?}");
    let (status, reason) = send(&tunnel.van, PAGE, &right, &all);
    assert!(status == 429 && reason.contains("wait a minute"), "{status}, {reason}");
    assert!(tunnel.van.log().contains("wrong token"), "{}", tunnel.van.log());
}

#[test]
fn browsers_that_say_nothing_are_few_and_hold_nothing_up() {
    let tunnel = tunnel(Plan::default(), PAGE, Entry::Open);
    let before = tunnel.van.open_files();
    let address: SocketAddr = PAGE.parse().unwrap();
    let silent: Vec<_> =
        tunnel.van.namespace.run(|| (0..200).map(|_| TcpStream::connect(address).unwrap()).collect());
    // Those that are one too many are hung up on.
    let rejected = wait_for("all but those that there is room for", PATIENCE, || {
        let rejected = silent.iter().filter(|stream| is_over(stream)).count();
        (rejected >= 200 - psmc_service::http::MAX_CONNECTIONS).then_some(rejected)
    });
    assert!(
        tunnel.van.open_files() <= before + psmc_service::http::MAX_CONNECTIONS,
        "{rejected} were rejected"
    );
    tunnel.ping(Family::V4);
    assert!(tunnel.van.try_status().is_some());
    wait_for("the page, once the others are hung up on", PATIENCE, || {
        let answer = tunnel.van.try_run(&["curl", "-s", "-o", "/dev/null", &format!("http://{PAGE}/")]);
        answer.status.success().then_some(())
    });
}

/// Whether the other side has hung up.
fn is_over(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    match stream.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}

/// How long is measured at once, and how often, without the page and with it.
const WINDOW: Duration = Duration::from_secs(5);
const WINDOWS: usize = 2;

/// Most of a core that an open page may cost.
const MOST: f64 = 0.02;

#[test]
fn an_open_page_costs_little() {
    let tunnel = tunnel(Plan { links: 8, ..Plan::default() }, PAGE, Entry::Open);
    let (without, with, polls) = Flows::prepare(&tunnel).during(|| measure(&tunnel));
    let shares = with.minus(&without);
    println!(
        "of a core, without the page: control {:.2} %, all {:.2} %; more with it: control {:.2} %, all {:.2} %; {polls:.2} polls/s",
        without.control * 100.0,
        without.all * 100.0,
        shares.control * 100.0,
        shares.all * 100.0
    );
    assert!(shares.control < MOST, "{:.2} % of a core", shares.control * 100.0);
    assert!(polls < 1.1, "{polls} polls per second");
}

/// Shares of a core that a daemon takes.
struct Shares {
    /// Its control side: the main thread.
    control: f64,
    /// All of it.
    all: f64,
}

impl Shares {
    fn minus(&self, other: &Self) -> Self {
        Self { control: self.control - other.control, all: self.all - other.all }
    }
}

/// What the daemon takes without and with an open page, and how often that asks.
fn measure(tunnel: &Tunnel) -> (Shares, Shares, f64) {
    let mut browser = Browser::start(&tunnel.van);
    let mut windows = [(Duration::ZERO, Duration::ZERO, Duration::ZERO); 2];
    let mut polls = 0;
    for _ in 0..WINDOWS {
        for (window, url) in windows.iter_mut().zip(["about:blank".to_owned(), format!("http://{PAGE}/")]) {
            browser.open(&url);
            if url != "about:blank" {
                browser.wait_until("paths", "document.querySelectorAll('#rows tr').length === 8");
                browser.evaluate("globalThis.counted = 0; { const shown = update; update = (state) => { counted++; shown(state); }; }");
            }
            let (begun, before) = (Instant::now(), tunnel.van.processor_time());
            sleep(WINDOW);
            let (elapsed, now) = (begun.elapsed(), tunnel.van.processor_time());
            *window = (window.0 + elapsed, window.1 + (now.0 - before.0), window.2 + (now.1 - before.1));
            polls += browser.evaluate("globalThis.counted ?? 0").as_u64().unwrap();
        }
    }
    let [without, with] = windows.map(|(elapsed, control, all)| Shares {
        control: control.as_secs_f64() / elapsed.as_secs_f64(),
        all: all.as_secs_f64() / elapsed.as_secs_f64(),
    });
    (without, with, polls as f64 / windows[1].0.as_secs_f64())
}
