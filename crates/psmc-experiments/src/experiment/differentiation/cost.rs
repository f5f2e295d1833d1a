//! What the real front costs beside HAProxy, each on one CPU of its own, before nginx.

use super::real::{output, seen};
use crate::experiment::{Experiment, Figure, Row, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[Experiment {
    name: "psmc-front-real-cost",
    what: "what a request costs, and what an idle connection does, beside HAProxy on one CPU",
    seed: "none",
    how: "\
real time; nginx, one process, answers 3 bytes. The front has one CPU, nginx and those who ask another, in turns: 5 s of h2load with 32 \
connections that are kept (HTTP/1.1), of which come requests a second and CPU time a request; 5 s of one request after the other, each by a connection of \
its own, of which comes the median, beside that without anything in front; 4,000 connections that have had a request and stay, after 100 others, of \
which comes what the program has more in memory. No TLS; HAProxy 2.6 has one thread; both have two classes. Needs a build with optimisation to mean anything",
    criterion: "CPU time and throughput within 1.15 of HAProxy's, at most 200 µs more at the median, at most 16 KiB for an idle connection",
    runs: 3,
    measure: cost,
}];

/// The fronts, and their ports.
const FRONTS: [(&str, u16); 2] = [("HAProxy", 8081), ("ours", 8083)];

fn cost(setup: &mut Setup<'_>) -> Vec<Row> {
    let seconds = setup.seconds(5);
    // Each load has a second to begin with, and the idle connections take a few.
    let duration = 6 + 3 * (seconds + 2) + 2 * (seconds + 2 + 8);
    let mut script = FILES.to_owned();
    for (name, port) in [("nothing", 8080)].into_iter().chain(FRONTS) {
        script += &format!(
            "echo \"{name}, alone: $(taskset -c 1 psmc-experiments load 127.0.0.1:{port} --at-once 1 --warm-up 1 --seconds {seconds})\"\n"
        );
    }
    for (name, port) in FRONTS {
        script += &format!("many '{name}' {port} {seconds}\nidle '{name}' {port}\n");
    }
    let scenario = format!(
        "duration = \"{duration}s\"\n\n[[link]]\nname = \"line\"\nbetween = [\"machine\", \"other\"]\naddresses = [\"10.1.0.1/24\", \"10.1.0.2/24\"]\n\n\
         [[program]]\nname = \"ask\"\nhost = \"machine\"\noutput = true\ncommand = [\"sh\", \"-c\", '''{script}''']\n"
    );
    let output = output(setup.run("front-cost", &scenario));
    let figure = |what: &str, name: &str| -> Option<f64> {
        let line = output.lines().find_map(|line| line.strip_prefix(&format!("{name}, {what}: ")))?;
        line.trim().parse().ok()
    };
    let median = |name: &str| seen(&output, &format!("{name}, alone")).and_then(|[_, class]| class.median_ms);
    let mut rows = Vec::new();
    for (what, unit) in [("CPU time of a request", "µs"), ("requests a second", "1/s")] {
        let [haproxy, ours] = FRONTS.map(|(name, _)| figure(what, name));
        for ((name, _), value) in FRONTS.into_iter().zip([haproxy, ours]) {
            rows.push(Figure::new(format!("{name}, {what}"), unit, value).shown());
        }
        let ratio = ours.zip(haproxy).map(|(ours, haproxy)| ours / haproxy);
        let ratio = Figure::new(format!("{what}, ours by HAProxy's"), "ratio", ratio);
        rows.push(if unit == "µs" { ratio.at_most(MOST) } else { ratio.at_least(1.0 / MOST) });
    }
    for (name, _) in FRONTS {
        let added = median(name).zip(median("nothing")).map(|(front, nothing)| (front - nothing) * 1e3);
        let added = Figure::new(format!("{name}, added at the median"), "µs", added);
        rows.push(if name == "ours" { added.at_most(200.0) } else { added.shown() });
        let idle = Figure::new(
            format!("{name}, an idle connection"),
            "KiB",
            figure("KiB of an idle connection", name),
        );
        rows.push(if name == "ours" { idle.at_most(16.0) } else { idle.shown() });
    }
    rows
}

/// What the CPU time of a request may be beside HAProxy's.
const MOST: f64 = 1.15;

/// Lines of a script that make all files, start all programs, and say how they are asked.
const FILES: &str = r#"
cd {dir} || exit 1
ulimit -n 9000
mkdir temp
cat > nginx.conf <<END
daemon off; master_process off; error_log stderr; pid {dir}/nginx.pid;
events { worker_connections 4096; }
http {
    access_log off; keepalive_requests 100000000;
    client_body_temp_path temp; proxy_temp_path temp; fastcgi_temp_path temp; uwsgi_temp_path temp; scgi_temp_path temp;
    server { listen 127.0.0.1:8080 backlog=4096; location / { return 200 "ok\n"; } }
}
END
cat > haproxy.cfg <<END
global
  nbthread 1
  maxconn 4200
defaults
  mode http
  timeout connect 4s
  timeout client 300s
  timeout server 60s
  timeout http-keep-alive 300s
  timeout queue 3s
  http-reuse always
frontend users
  bind 127.0.0.1:8081 backlog 4096
  http-request set-priority-class int(-100) if { req.cook(tier) -m str gold }
  default_backend servers
backend servers
  server nginx 127.0.0.1:8080 maxconn 64
END
cat > front.toml <<END
[front]
name = "front"
control_socket = "{dir}/front.sock"
[limits]
head_time = "5min"
[[listener]]
address = "127.0.0.1:8083"
[[upstream]]
servers = ["127.0.0.1:8080"]
limit = 64
[[class]]
name = "paying"
match = { cookie = "tier=gold" }
[[class]]
name = "rest"
ratio = 3
END
cat > idle.py <<END
import socket, sys
port, pid = int(sys.argv[1]), sys.argv[2]
def resident():
    return int(open(f"/proc/{pid}/statm").read().split()[1]) * 4
def more(count):
    for _ in range(count):
        one = socket.create_connection(("127.0.0.1", port))
        one.sendall(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
        answer = b""
        while not answer.endswith(b"ok\n"):
            answer += one.recv(4096) or exit("closed")
        kept.append(one)
kept = []
more(100)
before = resident()
more(4000)
print((resident() - before) / 4000)
END
taskset -c 1 nginx -e stderr -p {dir} -c {dir}/nginx.conf & nginx=$!
taskset -c 0 haproxy -db -f haproxy.cfg & pid8081=$!
taskset -c 0 psmc-front --config front.toml & pid8083=$!
trap "kill $nginx $pid8081 $pid8083" TERM EXIT
for port in 8080 8081 8083; do until curl -sf -o file http://127.0.0.1:$port/; do sleep 0.1; done; done
ticks() { awk '{ print $14 + $15 }' /proc/$1/stat; }
many() {
  eval pid=\$pid$2
  before=$(ticks $pid)
  taskset -c 1 h2load --h1 -c 32 --warm-up-time 1 -D $3 http://127.0.0.1:$2/ > h2load.txt
  after=$(ticks $pid)
  awk -v name="$1" -v ticks=$((after - before)) -v hz=$(getconf CLK_TCK) -v all=$(($3 + 1)) -v counted=$3 '
    /^requests:/ { done = $6 }
    END {
      print name ", requests a second: " done / counted
      print name ", CPU time of a request: " ticks / hz * 1e6 / (done / counted * all)
    }' h2load.txt
}
idle() {
  eval pid=\$pid$2
  echo "$1, KiB of an idle connection: $(taskset -c 1 python3 idle.py $2 $pid)"
}
"#;
