//! `psmc watch` in a real terminal: that of tmux.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::{panicking, sleep};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use psmc_api::{PathState, Status};
use psmc_testbed::programs::program;

use crate::harness::{Family, Flows, Plan, Site, Tunnel, VAN, path_name, processor_time, wait_for};

/// How long something may take that a user waits for: an interval and more.
const PATIENCE: Duration = Duration::from_secs(15);

/// What the shell prints before a command.
const PROMPT: &str = "shell>";

#[test]
fn paths_are_watched_and_changed_and_the_shell_is_back_afterwards() {
    let tunnel = Tunnel::start(Plan::default());
    let screen = Screen::start(&tunnel.van);
    screen.line("\"$PSMC\" --socket \"$SOCKET\" watch; echo status $?");
    let names = [1, 2].map(|link| path_name(VAN, link));
    screen.wait_for("both paths active", |text| {
        names.iter().all(|name| row(text, name).is_some_and(|row| row.contains(" active ")))
    });
    let text = screen.text();
    println!("{text}");
    assert!(text.contains("site van, up ") && text.contains("[hq connected]"), "{text}");
    assert!(!text.contains(PROMPT), "{text}");

    tunnel.ping(Family::V4);
    screen.keys(&["j", "s"]);
    wait_for("the second path on standby", PATIENCE, || {
        (states(&tunnel.van) == [PathState::Active, PathState::Standby]).then_some(())
    });
    screen.wait_for("that on the screen", |text| {
        row(text, &names[1]).is_some_and(|row| row.contains(" standby "))
            && text.contains(&format!("hq: path {}: active → standby", names[1]))
    });
    screen.keys(&["+"]);
    wait_for("the weight", PATIENCE, || tunnel.van.path(&names[1]).filter(|path| path.weight == 2));
    screen.keys(&["-", "-"]);
    screen.wait_for("the daemon's refusal", |text| text.contains("0 is not a weight"));

    screen.keys(&["q"]);
    screen.wait_for("the shell", |text| text.contains("status 0"));
    let text = screen.text();
    assert!(text.starts_with(PROMPT), "what was there before is there again: {text}");
    assert!(!text.contains("site van"), "{text}");
    screen.line("stty -a | grep -ow -e -echo -e echo -e -icanon -e icanon | xargs echo terminal");
    screen.wait_for("the terminal as it was", |text| text.contains("\nterminal icanon echo\n"));
}

#[test]
fn a_daemon_that_goes_away_is_waited_for() {
    let mut tunnel = Tunnel::start(Plan::default());
    let screen = Screen::start(&tunnel.van);
    screen.line("\"$PSMC\" --socket \"$SOCKET\" watch; echo status $?");
    screen.wait_for("an answer", |text| text.contains("site van, up "));
    tunnel.van.terminate();
    screen
        .wait_for("the daemon's end", |text| text.contains("no answer since ") && text.contains("running?"));
    tunnel.van.start();
    screen.wait_for("the daemon's return", |text| {
        text.contains("psmcd answers again") && !text.contains("no answer since ")
    });
    screen.keys(&["C-c"]);
    screen.wait_for("the shell", |text| text.contains("status 0"));
}

#[test]
fn signals_end_it_and_the_terminal_is_as_it_was() {
    let tunnel = Tunnel::start(Plan::default());
    let screen = Screen::start(&tunnel.van);
    for (signal, status) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        screen.line("clear; \"$PSMC\" --socket \"$SOCKET\" watch; echo status $?");
        screen.wait_for("an answer", |text| text.contains("site van, up "));
        assert_eq!(screen.modes(), "1 0", "the alternate screen, without a cursor");
        kill(screen.program(), signal).unwrap();
        screen.wait_for("the shell", |text| text.contains(&format!("status {status}")));
        let text = screen.text();
        assert!(text.contains(PROMPT) && !text.contains("site van"), "{signal}: {text}");
        assert_eq!(screen.modes(), "0 1", "{signal}: the screen of the shell, with a cursor");
        screen.line("clear; stty -a | grep -ow -e -echo -e echo -e -icanon -e icanon | xargs echo terminal");
        screen.wait_for("the terminal as it was", |text| text.contains("terminal icanon echo\n"));
    }
}

#[test]
fn it_ends_with_its_terminal() {
    let tunnel = Tunnel::start(Plan::default());
    let screen = Screen::start(&tunnel.van);
    screen.line("\"$PSMC\" --socket \"$SOCKET\" watch");
    screen.wait_for("an answer", |text| text.contains("site van, up "));
    let program = screen.program();
    drop(screen);
    let executable = format!("/proc/{program}/exe");
    wait_for("the end of the program", PATIENCE, || fs::read_link(&executable).is_err().then_some(()));
}

/// How long is measured.
const WINDOW: Duration = Duration::from_secs(10);

/// Most of a core that it may take. A build for tests takes several times what an installed one does.
const MOST: f64 = if cfg!(debug_assertions) { 0.04 } else { 0.02 };

#[test]
fn watching_costs_little() {
    let tunnel = Tunnel::start(Plan { links: 8, ..Plan::default() });
    let screen = Screen::start(&tunnel.van);
    let share = Flows::prepare(&tunnel).during(|| {
        screen.line("\"$PSMC\" --socket \"$SOCKET\" watch");
        screen.wait_for("all paths with traffic", |text| {
            (1..=8).all(|link| row(text, &path_name(VAN, link)).is_some_and(|row| row.contains(" active ")))
        });
        let program = screen.program().as_raw().cast_unsigned();
        let (begun, (_, before)) = (Instant::now(), processor_time(program));
        sleep(WINDOW);
        (processor_time(program).1 - before).as_secs_f64() / begun.elapsed().as_secs_f64()
    });
    println!("psmc watch takes {:.2} % of a core", share * 100.0);
    assert!(share < MOST, "{:.2} % of a core", share * 100.0);
}

/// The line of the table with this path.
fn row<'a>(text: &'a str, path: &str) -> Option<&'a str> {
    text.lines().find(|line| line.trim_start_matches(['▸', ' ']).starts_with(path))
}

/// The states of the paths to the only peer, as scripts learn them.
fn states(site: &Site) -> Vec<PathState> {
    let output = site.psmc(&["status", "--json"]);
    let status: Status = serde_json::from_slice(&output.stdout).unwrap();
    status.peers[0].paths.iter().map(|path| path.state).collect()
}

/// A shell in a terminal of 80 columns and 24 lines, on a site. It ends on drop.
struct Screen {
    /// Where this tmux, and no other one, is reached.
    socket: PathBuf,
}

impl Screen {
    fn start(site: &Site) -> Self {
        let screen = Self { socket: site.file("tmux") };
        let mut command = screen.tmux(&["new-session", "-d", "-x", "80", "-y", "24", "sh"]);
        command.env("PSMC", program("psmc")).env("SOCKET", site.file("sock"));
        command.env("LC_ALL", "C.UTF-8");
        let output = site.namespace.run(|| command.output()).expect("tmux is installed");
        assert!(output.status.success(), "{output:?}");
        // Only from here on does the prompt not depend on the user and the shell.
        screen.line(&format!("PS1='{PROMPT} '; clear"));
        screen.wait_for("the shell", |text| text.trim_end() == PROMPT);
        screen
    }

    fn tmux(&self, args: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-u", "-f", "/dev/null", "-S"]).arg(&self.socket).args(args).stdin(Stdio::null());
        command
    }

    /// Presses these keys, by tmux's names.
    fn keys(&self, keys: &[&str]) {
        let output = self.tmux(&[&["send-keys"], keys].concat()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Types a line.
    fn line(&self, text: &str) {
        self.keys(&[text, "Enter"]);
    }

    /// What is on it.
    fn text(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Whether the alternate screen is shown, and a cursor.
    fn modes(&self) -> String {
        self.ask("#{alternate_on} #{cursor_flag}")
    }

    /// The program that the shell runs.
    fn program(&self) -> Pid {
        let shell = self.ask("#{pane_pid}");
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        Pid::from_raw(children.trim().parse().unwrap_or_else(|error| panic!("{error}: {children:?}")))
    }

    /// What tmux knows of it.
    fn ask(&self, format: &str) -> String {
        let output = self.tmux(&["display-message", "-p", format]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    fn wait_for(&self, what: &str, shown: impl Fn(&str) -> bool) {
        wait_for(&format!("{what}, on the screen"), PATIENCE, || shown(&self.text()).then_some(()));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if panicking() {
            eprintln!("--- the screen:\n{}", self.text());
        }
        // It fails only if the server has ended.
        drop(self.tmux(&["kill-server"]).output());
    }
}
