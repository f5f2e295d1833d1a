//! The real front before a real server: Debian's Apache with as many processes as it has, each of which has one request at a time.
//!
//! What limits that server are its processes, not the CPU of this machine, which all share: a request takes a time that it sleeps.

use std::fmt::Write;

use psmc_lab::results::Results;

use crate::experiment::{Experiment, Figure, Row, Setup};
use crate::load::{Class, Seen};

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "psmc-front-real-overload",
        what: "twice what a real server can do: what is answered, and how long the first class takes, beside HAProxy with priorities",
        seed: "none: PSMC leaves overload to admission control",
        how: "\
real time; for each front an Apache 2.4 (prefork) with 16 processes, each request exponentially distributed, 50 ms on average; one of the first class for three of the \
second, Poisson, each by a connection of its own, whose user waits 4 s for the answer. 20 s after 5 s at half of what 16 processes can do, and 20 s \
after 5 s at twice that; in turns with nothing in front, with HAProxy that lets 16 requests in at a time, for it was told so, with HAProxy that was told \
nothing, twice with ours, which measures, and with ours that was told. HAProxy has priority classes, and a request waits 3 s at most. Ours: the first class's objective is twice its \
99th percentile of exponentially distributed times (460 ms), and then as much as that (230 ms), so that nothing is left for waiting, also where the limit is known; the second sheds. What can be done is what is answered to 32 users who ask again \
at once. Of times, those that users have not waited for count as 4 s",
        criterion: "\
at twice the load ours answers at least 95 % of what can be done in time, and the first class's 99th percentile is at most twice that at half load, \
and less than with HAProxy that was told nothing; where both were told the limit, ours is within a twentieth of HAProxy's",
        runs: 3,
        measure: overload,
    },
    Experiment {
        name: "psmc-front-real-ratios",
        what: "ratios of response times before a real server, and with a class that is shed",
        seed: "PSMC figure 6.8, at 80 % load and a target of 2: a mean of 2.7 by theory and 2.2 with feedback, Apache 1.3",
        how: "\
real time; for each front an Apache 2.4 (prefork) with 4 processes, each request exponentially distributed, 20 ms on average; as many of the first class as of the second, \
Poisson. 60 s after 5 s at 30 to 95 % of what 8 users who ask again at once get answered; ours, which measures the limit, without and with idling, and HAProxy with \
priority classes and the right one, for what precedence reaches. At 200 % the second class sheds, and the first has an objective of a second. The \
ratio is that of the mean response times that users see",
        criterion: "ours within a tenth of the target where precedence reaches 1.15 times that, with idling everywhere, and with shedding",
        runs: 3,
        measure: ratios,
    },
];

/// What stands between users and a server of its own, and its port. One server for all would still be busy with what others left in it.
struct Front {
    name: &'static str,
    port: u16,
}

/// From a front's port to that of its server.
const TO_SERVER: u16 = 1000;

const SERVER: Front = Front { name: "nothing", port: 8080 };
const TOLD: Front = Front { name: "HAProxy, limit known", port: 8081 };
const UNTOLD: Front = Front { name: "HAProxy, no limit", port: 8082 };
const OURS: Front = Front { name: "ours", port: 8083 };
const FIRST: Front = Front { name: "ours, nothing left for waiting", port: 8084 };
const KNOWN: Front = Front { name: "ours, limit known", port: 8085 };

/// Apache, with so many processes, and so many ms for a request on average.
#[derive(Clone, Copy)]
struct Server {
    processes: u32,
    mean_ms: u32,
}

impl Server {
    /// Requests a second that it can have at most: it does less by what it takes to begin and to end them.
    fn per_second(self) -> f64 {
        f64::from(self.processes) * 1e3 / f64::from(self.mean_ms)
    }

    /// Lines of a script that make the files of one that listens there.
    fn files(self, port: u16) -> String {
        let Self { processes, mean_ms } = self;
        format!(
            "cat > app.py <<END\n\
             import random\nimport time\n\
             def application(environ, start):\n    \
             time.sleep(random.expovariate(1000 / {mean_ms}))\n    \
             start(\"200 OK\", [(\"Content-Type\", \"text/plain\"), (\"Content-Length\", \"3\")])\n    \
             return [b\"ok\\n\"]\nEND\n\
             cat > apache{port}.conf <<END\n\
             LoadModule mpm_prefork_module /usr/lib/apache2/modules/mod_mpm_prefork.so\n\
             LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\n\
             LoadModule wsgi_module /usr/lib/apache2/modules/mod_wsgi.so\n\
             ServerRoot {{dir}}\nDefaultRuntimeDir {{dir}}\nPidFile {{dir}}/apache{port}.pid\nErrorLog {{dir}}/apache{port}.log\nLogLevel warn\n\
             ServerName test\nUser www-data\nGroup www-data\nListen {port}\nKeepAlive Off\n\
             StartServers {processes}\nMinSpareServers {processes}\nMaxSpareServers {processes}\n\
             ServerLimit {processes}\nMaxRequestWorkers {processes}\n\
             WSGIScriptAlias / {{dir}}/app.py\n<Directory {{dir}}>\nRequire all granted\n</Directory>\nEND\n"
        )
    }
}

/// Lines of a script that make a file of HAProxy, with this in the line of its server.
fn haproxy(front: &Front, limit: &str) -> String {
    let port = front.port;
    format!(
        "cat > haproxy{port}.cfg <<END\n\
         global\n  nbthread 1\n  maxconn 8000\n\
         defaults\n  mode http\n  timeout connect 4s\n  timeout client 60s\n  timeout server 60s\n  timeout queue 3s\n  option abortonclose\n\
         frontend users\n  bind {ADDRESS}:{port}\n\
         \x20 http-request set-priority-class int(-100) if {{ req.cook(tier) -m str gold }}\n  default_backend servers\n\
         backend servers\n  server apache {ADDRESS}:{}{limit}\nEND\n",
        port + TO_SERVER
    )
}

/// Lines of a script that make a file of ours.
fn ours([settings, upstream]: [&str; 2], port: u16, first: &str, second: &str) -> String {
    format!(
        "cat > front{port}.toml <<END\n\
         [front]\nname = \"front{port}\"\ncontrol_socket = \"{{dir}}/front{port}.sock\"\n{settings}\n\
         [[listener]]\naddress = \"{ADDRESS}:{port}\"\n[[upstream]]\nservers = [\"{ADDRESS}:{}\"]\n{upstream}\n\
         [[class]]\nname = \"paying\"\nmatch = {{ cookie = \"tier=gold\" }}\n{first}\n\
         [[class]]\nname = \"rest\"\n{second}\nEND\n",
        port + TO_SERVER
    )
}

/// Of the server's host, on which all fronts are.
const ADDRESS: &str = "10.1.0.2";

/// A scenario: files are made, the programs started, and users ask by a script.
struct Bed {
    server: Server,
    files: String,
    /// Commands, each as TOML has them.
    programs: Vec<String>,
    ask: String,
    seconds: u32,
}

impl Bed {
    /// With a server that users ask without anything in front.
    fn new(server: Server) -> Self {
        let bed = Self {
            server,
            files: String::new(),
            programs: Vec::new(),
            ask: "cd {dir}\n".to_owned(),
            seconds: STARTING,
        };
        bed.apache(SERVER.port)
    }

    fn apache(mut self, port: u16) -> Self {
        self.files += &self.server.files(port);
        // It ends its process group, which would be the lab.
        self.programs
            .push(format!(r#"["setsid", "apache2", "-f", "{{dir}}/apache{port}.conf", "-DFOREGROUND"]"#));
        self.ask += &wait(port);
        self
    }

    fn haproxy(mut self, front: &Front, limit: &str) -> Self {
        self.files += &haproxy(front, limit);
        self.programs.push(format!(r#"["haproxy", "-db", "-f", "{{dir}}/haproxy{}.cfg"]"#, front.port));
        self.ask += &wait(front.port);
        self.apache(front.port + TO_SERVER)
    }

    fn ours(self, port: u16, first: &str, second: &str) -> Self {
        self.ours_with(["", ""], port, first, second)
    }

    /// With more in `[front]` and in `[[upstream]]`.
    fn ours_with(mut self, settings: [&str; 2], port: u16, first: &str, second: &str) -> Self {
        self.files += &ours(settings, port, first, second);
        self.programs.push(format!(r#"["psmc-front", "--config", "{{dir}}/front{port}.toml"]"#));
        self.ask += &wait(port);
        self.apache(port + TO_SERVER)
    }

    /// Has users ask, each again at once, twice as many as the server has processes: that is what it can do, `$can` of the script.
    fn can(mut self) -> Self {
        let users = 2 * self.server.processes;
        let arguments = format!("{ADDRESS}:{} --at-once {users} --warm-up 1 --seconds {CAN}", SERVER.port);
        // The second class is the last.
        let rate = r#"sed 's/.*"answers_per_s":\([0-9.]*\).*/\1/'"#;
        let _ = writeln!(
            self.ask,
            "all=$(psmc-experiments load {arguments})\necho \"can: $all\"\ncan=$(echo \"$all\" | {rate})"
        );
        self.seconds += CAN + 2;
        self
    }

    /// Has users ask at such a part of what the server can do, the first class at a part of that.
    fn load(mut self, label: &str, port: u16, load: &Load, seed: u32) -> Self {
        let Load { part, first, warm_up, seconds } = load;
        let rates = format!(
            "awk -v c=$can 'BEGIN {{ printf \"--first %f --second %f\", c * {part} * {first}, c * {part} * (1 - {first}) }}'"
        );
        let arguments =
            format!("--warm-up {warm_up} --seconds {seconds} --patience {PATIENCE} --seed {seed}");
        let _ = writeln!(
            self.ask,
            "echo \"{label}: $(psmc-experiments load {ADDRESS}:{port} $({rates}) {arguments})\"\nsleep {PATIENCE}"
        );
        self.seconds += warm_up + seconds + 2 * PATIENCE + 1;
        self
    }

    fn scenario(&self) -> String {
        let mut text = format!(
            "duration = \"{}s\"\n\n[[link]]\nname = \"line\"\nbetween = [\"users\", \"server\"]\naddresses = [\"10.1.0.1/24\", \"{ADDRESS}/24\"]\n\n",
            self.seconds
        );
        let mut program = |name: &str, host, start, command: &str| {
            let _ = writeln!(
                text,
                "[[program]]\nname = \"{name}\"\nhost = \"{host}\"\nstart = \"{start}\"\ncommand = {command}"
            );
        };
        // Apache's processes are another user's.
        let files = format!("[\"sh\", \"-c\", '''cd {{dir}} && chmod 755 . || exit 1\n{}''']\n", self.files);
        program("files", "server", "0s", &files);
        for (number, command) in (1..).zip(&self.programs) {
            program(&format!("program{number}"), "server", "1s", &format!("{command}\n"));
        }
        program(ASK, "users", "2s", &format!("[\"sh\", \"-c\", '''{}''']\noutput = true", self.ask));
        text
    }
}

/// At which part of what the server can do users ask, which part of them is of the first class, and for how long, in seconds.
struct Load {
    part: f64,
    first: f64,
    warm_up: u32,
    seconds: u32,
}

/// A line of a script that waits until a web server answers.
fn wait(port: u16) -> String {
    format!("until curl -sf -o /dev/null http://{ADDRESS}:{port}/; do sleep 0.1; done\n")
}

/// What the script has printed; nothing if it did not run.
pub(super) fn output(results: Option<Results>) -> String {
    let programs = results.map(|results| results.programs).unwrap_or_default();
    programs
        .into_iter()
        .find(|program| program.name == ASK)
        .and_then(|program| program.output)
        .unwrap_or_default()
}

/// What users have seen, by the label of their load.
pub(super) fn seen(output: &str, label: &str) -> Option<Seen> {
    let found = |line: &str| serde_json::from_str(line.strip_prefix(label)?.strip_prefix(": ")?).ok();
    output.lines().find_map(found)
}

/// Answers a second to both classes.
fn answers(seen: &Seen) -> f64 {
    seen.iter().map(|class| class.answers_per_s).sum()
}

fn percent(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64 * 100.0)
}

fn overload(setup: &mut Setup<'_>) -> Vec<Row> {
    let fronts = [SERVER, TOLD, UNTOLD, OURS, FIRST, KNOWN];
    let seed = setup.run.0;
    let counted = setup.seconds(20);
    let load = |part| Load { part, first: 0.25, warm_up: 5, seconds: counted };
    let mut bed = Bed::new(LARGE)
        .haproxy(&TOLD, &format!(" maxconn {}", LARGE.processes))
        .haproxy(&UNTOLD, "")
        .ours(OURS.port, "objective = { p99 = \"460ms\" }", "ratio = 3\nshed = true")
        .ours(FIRST.port, "objective = { p99 = \"230ms\" }", "ratio = 3\nshed = true")
        .ours_with(
            ["", &format!("limit = {}", LARGE.processes)],
            KNOWN.port,
            "objective = { p99 = \"230ms\" }",
            "ratio = 3\nshed = true",
        )
        .can();
    for front in &fronts {
        bed = bed.load(&format!("{}, half", front.name), front.port, &load(0.5), seed);
        bed = bed.load(&format!("{}, twice", front.name), front.port, &load(2.0), seed);
    }
    let output = output(setup.run("front-overload", &bed.scenario()));
    let can = seen(&output, "can").map(|seen| answers(&seen));
    let of_can = can.map(|can| can / LARGE.per_second() * 100.0);
    let mut rows =
        vec![Figure::new("what the server can do, of 16 processes without pauses", "%", of_can).shown()];
    let mut of_haproxy = [None; 2];
    for Front { name, .. } in fronts {
        let at = |load: &str| seen(&output, &format!("{name}, {load}"));
        let (half, twice) = (at("half"), at("twice"));
        let figure = |what: &str, unit, value| Figure::new(format!("{name}, {what}"), unit, value);
        let goodput = twice.as_ref().zip(can).map(|(twice, can)| answers(twice) / can * 100.0);
        let goodput = figure("answered of what can be", "%", goodput);
        let tail = |seen: &Option<Seen>| seen.as_ref()?[0].p99_ms;
        let [tail_half, tail_twice] = [&half, &twice].map(tail);
        let times = tail_twice.zip(tail_half).map(|(twice, half)| twice / half);
        let times = figure("99th percentile of the first class over that at half load", "times", times);
        for (of, haproxy) in of_haproxy.iter_mut().zip([UNTOLD, TOLD]) {
            if name == haproxy.name {
                *of = tail_twice;
            }
        }
        let beside = tail_twice;
        let tail_twice = figure("99th percentile of the first class", "ms", tail_twice);
        if [OURS.name, FIRST.name, KNOWN.name].contains(&name) {
            let [untold, told] = of_haproxy.map(|of| Some(beside? / of? * 100.0));
            let of = |which: &str, value| {
                figure(&format!("99th percentile of the first class, of that with {which}"), "%", value)
            };
            rows.extend([goodput.at_least(95.0), times.at_most(2.0), tail_twice.shown()]);
            let told = of(TOLD.name, told);
            let told = if name == KNOWN.name { told.at_most(105.0) } else { told.shown() };
            rows.extend([of(UNTOLD.name, untold).at_most(100.0), told]);
        } else {
            rows.extend([goodput.shown(), times.shown(), tail_twice.shown()]);
        }
        rows.extend(users(name, twice.as_ref()));
    }
    rows
}

/// What became of those who asked at twice the load, with the front of such a name.
fn users(name: &str, twice: Option<&Seen>) -> [Row; 4] {
    let row = |what: &str, unit, value| Figure::new(format!("{name}, {what}"), unit, value).shown();
    let share = |class: usize, of: fn(&Class) -> usize| {
        let class = &twice?[class];
        percent(of(class), class.asked)
    };
    let unanswered = |class: &Class| class.asked - class.answered;
    [
        row("first class without an answer", "%", share(0, unanswered)),
        row("second class without an answer", "%", share(1, unanswered)),
        row("second class that gave up after 4 s", "%", share(1, |class| class.timed_out)),
        row("99th percentile of the second class", "ms", twice.and_then(|twice| twice[1].p99_ms)),
    ]
}

fn ratios(setup: &mut Setup<'_>) -> Vec<Row> {
    let seed = setup.run.0;
    let counted = setup.seconds(60);
    let load =
        |percent: u32| Load { part: f64::from(percent) / 100.0, first: 0.5, warm_up: 5, seconds: counted };
    let targets = [(2.0, [8084, 8086, 8088]), (3.0, [8085, 8087, 8089])];
    let mut bed = Bed::new(SMALL).haproxy(&TOLD, &format!(" maxconn {}", SMALL.processes));
    for (target, [port, shedding, idling]) in targets {
        bed = bed.ours(port, "", &format!("ratio = {target}"));
        bed = bed.ours_with(["idling = true", ""], idling, "", &format!("ratio = {target}"));
        bed = bed.ours(shedding, "objective = { p99 = \"1s\" }", &format!("ratio = {target}\nshed = true"));
    }
    bed = bed.can();
    for percent in LOADS {
        bed = bed.load(&format!("precedence {percent}"), TOLD.port, &load(percent), seed);
        for (target, [port, _, idling]) in targets {
            bed = bed.load(&format!("{target} {percent}"), port, &load(percent), seed);
            bed = bed.load(&format!("{target} {percent}, idling"), idling, &load(percent), seed);
        }
    }
    for (target, [_, port, _]) in targets {
        bed = bed.load(&format!("{target} shed"), port, &load(200), seed);
    }
    let output = output(setup.run("front-ratios", &bed.scenario()));
    let ratio = |label: &str| {
        let [first, second] = seen(&output, label)?;
        Some(second.mean_ms? / first.mean_ms?)
    };
    let mut rows = Vec::new();
    for percent in LOADS {
        let precedence = ratio(&format!("precedence {percent}"));
        rows.push(Figure::new(format!("load {percent} %, HAProxy, precedence"), "ratio", precedence).shown());
        for (target, ..) in targets {
            let mean = ratio(&format!("{target} {percent}"));
            let figure = Figure::new(format!("load {percent} %, ours, 1 : {target}"), "ratio", mean);
            let is_feasible = precedence.is_none_or(|most| most >= 1.15 * target);
            rows.push(if is_feasible { figure.near(target, 0.1) } else { figure.shown() });
            let mean = ratio(&format!("{target} {percent}, idling"));
            let figure = Figure::new(format!("load {percent} %, ours, idling, 1 : {target}"), "ratio", mean);
            rows.push(figure.near(target, 0.1));
        }
    }
    for (target, ..) in targets {
        let mean = ratio(&format!("{target} shed"));
        let figure = Figure::new(format!("load 200 %, ours, shedding, 1 : {target}"), "ratio", mean);
        rows.push(figure.near(target, 0.1));
        let refused = seen(&output, &format!("{target} shed"));
        let refused = refused.and_then(|[first, _]| percent(first.refused, first.asked));
        rows.push(
            Figure::new(
                format!("load 200 %, ours, shedding, 1 : {target}, first class refused"),
                "%",
                refused,
            )
            .at_most(1.0),
        );
    }
    rows
}

const LARGE: Server = Server { processes: 16, mean_ms: 50 };
const SMALL: Server = Server { processes: 4, mean_ms: 20 };

const LOADS: [u32; 5] = [30, 50, 80, 90, 95];

/// The program whose output has what users saw.
const ASK: &str = "ask";

/// How long users wait, in seconds, and how long a server is left alone then.
const PATIENCE: u32 = 4;

/// How long it takes until all programs answer, and for how long users ask again at once, in seconds.
const STARTING: u32 = 8;
const CAN: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_saw_is_found_by_its_label() {
        let class = r#"{"asked":4,"answered":3,"refused":1,"timed_out":0,"failed":0,"answers_per_s":1.5,"mean_ms":2.0,"median_ms":2.0,"p99_ms":null}"#;
        let output = format!("noise\nours, half: oops\nours, twice: [{class},{class}]\n");
        let found = seen(&output, "ours, twice").unwrap();
        assert!((answers(&found) - 3.0).abs() < 1e-9, "{found:?}");
        assert_eq!(seen(&output, "ours, half"), None);
    }
}
