//! Who waits, and who is refused.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Front, OK, Server, head, rest, wait_for};

const CLASSES: &str = "[[class]]\nname = \"paying\"\nmatch = { cookie = \"tier=gold\" }\nratio = 1\n\
    [[class]]\nname = \"rest\"\nratio = 3\nqueue = 1\n";

/// A server that answers when it is told to.
fn held() -> (Server, mpsc::Sender<()>, mpsc::Receiver<String>) {
    let (go, wait) = mpsc::channel();
    let (say, said) = mpsc::channel();
    let wait = std::sync::Mutex::new(wait);
    let server = Server::start(move |stream, _| {
        say.send(head(stream)).unwrap();
        if wait.lock().unwrap().recv().is_ok() {
            let _ = stream.write_all(OK.replace("OK\r\n", "OK\r\nConnection: close\r\n").as_bytes());
        }
    });
    (server, go, said)
}

#[test]
fn a_queue_has_a_bound_and_who_hangs_up_leaves_it() {
    let (server, go, said) = held();
    let front = Front::start(&[server.address], "limit = 1", CLASSES);
    let ask = |cookie: &str| {
        let mut client = front.connect();
        write!(client, "GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\nCookie: {cookie}\r\n\r\n")
            .unwrap();
        client
    };
    let waiting = |count: [u64; 2]| {
        wait_for("who waits", || {
            let status = front.status();
            let now = [0, 1].map(|class| status["classes"][class]["waiting"].as_u64().unwrap());
            (now == count).then_some(())
        });
    };
    let mut first = ask("a=b");
    said.recv().unwrap();
    let second = ask("a=b");
    waiting([0, 1]);
    let answer = rest(&mut ask("a=b")).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.to_lowercase().contains("\r\nretry-after: "),
        "{answer}"
    );
    // Another class has a queue of its own.
    let mut paying = ask("tier=gold");
    waiting([1, 1]);
    drop(second);
    waiting([1, 0]);
    let mut third = ask("a=b");
    waiting([1, 1]);
    for _ in 0..3 {
        go.send(()).unwrap();
    }
    for client in [&mut first, &mut paying, &mut third] {
        assert!(rest(client).unwrap().starts_with("HTTP/1.1 200 "));
    }
    let classes = &front.status()["classes"];
    assert_eq!(classes[0]["name"], "paying");
    assert_eq!((classes[0]["arrived"].as_u64(), classes[1]["arrived"].as_u64()), (Some(1), Some(4)));
    assert_eq!((classes[1]["cancelled"].as_u64(), classes[1]["refused"].as_u64()), (Some(1), Some(1)));
    assert_eq!(server.connections(), 3);
}

#[test]
fn a_client_that_goes_away_frees_its_place() {
    let (server, _go, said) = held();
    let front = Front::start(&[server.address], "limit = 1", "");
    let mut client = front.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    said.recv().unwrap();
    drop(client);
    wait_for("the place", || (front.status()["servers"][0]["in_flight"] == 0).then_some(()));
    assert_eq!(front.status()["counts"]["abandoned"], 1);
}

/// A server that has this many ms for each request.
fn slow(ms: u64) -> Server {
    Server::start(move |stream, _| {
        loop {
            let mut first = [0];
            if stream.peek(&mut first).unwrap_or(0) == 0 {
                return;
            }
            head(stream);
            thread::sleep(Duration::from_millis(ms));
            if stream.write_all(OK.as_bytes()).is_err() {
                return;
            }
        }
    })
}

/// Users of both classes, so many of each, who ask again as soon as they have an answer, until `time` is over. Yields the mean response times
/// of what was answered in its second half.
fn ask_again(front: &Front, users: usize, time: Duration) -> [f64; 2] {
    let start = Instant::now();
    let one = |cookie: &'static str| {
        let mut times = Vec::new();
        while start.elapsed() < time {
            let asked = Instant::now();
            let answer = front.get("/", cookie);
            if answer.starts_with("HTTP/1.1 200 ") && start.elapsed() > time / 2 {
                times.push(asked.elapsed().as_secs_f64());
            }
        }
        times
    };
    thread::scope(|scope| {
        let classes = ["Cookie: tier=gold\r\n", ""];
        let asking =
            classes.map(|cookie| (0..users).map(|_| scope.spawn(move || one(cookie))).collect::<Vec<_>>());
        asking.map(|users| {
            let times: Vec<f64> = users.into_iter().flat_map(|user| user.join().unwrap()).collect();
            assert!(!times.is_empty(), "nobody was answered");
            times.iter().sum::<f64>() / times.len() as f64
        })
    })
}

#[test]
fn response_times_have_the_ratio_of_their_classes() {
    let server = slow(10);
    for target in [1, 2, 3] {
        let classes = format!(
            "[[class]]\nname = \"paying\"\nmatch = {{ cookie = \"tier=gold\" }}\n[[class]]\nname = \"rest\"\nratio = {target}\n"
        );
        let front = Front::start(&[server.address], "limit = 2", &classes);
        let [first, second] = ask_again(&front, 8, Duration::from_secs(6));
        let (ratio, target) = (second / first, f64::from(target));
        // A machine that stands still makes both take longer, and their ratio smaller.
        assert!(
            (0.8 * target..=1.2 * target).contains(&ratio),
            "{ratio} for {target}: {first} and {second} s"
        );
    }
}

/// One at a time, of each class by turns, so that nobody is in anybody's way.
#[test]
fn at_light_load_a_ratio_is_held_by_keeping_requests_back_if_that_is_asked_for() {
    let server = slow(10);
    let classes = "[[class]]\nname = \"paying\"\nmatch = { cookie = \"tier=gold\" }\n[[class]]\nname = \"rest\"\nratio = 3\n";
    let ratio = |settings: &str| {
        let front = Front::start_as(settings, &[server.address], "", "limit = 8", classes);
        let [first, second] = ask_again(&front, 1, Duration::from_secs(4));
        second / first
    };
    let (usual, idling) = (ratio(""), ratio("idling = true"));
    assert!(usual < 1.5, "{usual}");
    assert!(idling > 2.0 && idling > 1.5 * usual, "{idling} and {usual}");
}

#[test]
fn a_plan_is_made_of_what_is_given_and_of_what_is_measured() {
    let server = slow(50);
    let front = Front::start(&[server.address], "limit = 2", CLASSES);
    // By hand: two places that are in use for 36 of 40 ms, 90 %.
    let given = [
        "--arrivals",
        "paying=18",
        "--arrivals",
        "rest=18",
        "--service",
        "paying=50",
        "--service",
        "rest=50",
    ];
    let plan = front.plan(&given).unwrap();
    assert!(plan.starts_with("2 requests at a time, load 90 %: the ratios can be held\n"), "{plan}");
    // 263 ms without ratios; half of the sum is of each class, 1 to 3.
    assert!(
        plan.contains("class paying: 18.0 requests/s of 50.0 ms, ratio 1, response time 131.6 ms\n"),
        "{plan}"
    );
    assert!(
        plan.contains("class rest: 18.0 requests/s of 50.0 ms, ratio 3, response time 394.7 ms\n"),
        "{plan}"
    );
    let much =
        front.plan(&[&given[..4], &["--service", "paying=50", "--service", "rest=150"]].concat()).unwrap();
    assert!(much.contains("more than the servers can do") && much.contains("% refused"), "{much}");
    let unknown = front.plan(&["--arrivals", "gold=1"]).unwrap_err();
    assert!(unknown.contains("there is no class gold; there are paying, rest"), "{unknown}");
    // Nobody has asked yet, and then one does.
    assert!(front.plan(&given[..4]).unwrap_err().contains("has measured no request of class paying"));
    thread::scope(|scope| {
        let planned = scope.spawn(|| front.plan(&["--arrivals", "rest=0"]));
        let mut requests = 0;
        while !planned.is_finished() {
            assert!(front.get("/", "Cookie: tier=gold\r\n").starts_with("HTTP/1.1 200 "));
            requests += 1;
        }
        let plan = planned.join().unwrap().unwrap();
        assert!(requests > 1 && plan.contains("class rest: 0.0 requests/s"), "{plan}");
        assert!(plan.contains("class paying: ") && !plan.contains("class paying: 0.0 "), "{plan}");
    });
}

#[test]
fn who_would_wait_in_vain_is_refused_and_the_better_class_is_not() {
    let server = slow(20);
    let classes = "[[class]]\nname = \"paying\"\nmatch = { cookie = \"tier=gold\" }\nobjective = { p99 = \"200ms\" }\n\
        [[class]]\nname = \"rest\"\nratio = 3\nshed = true\n";
    let front = Front::start(&[server.address], "limit = 1", classes);
    // One of the first class, and far more of the second than there is time for.
    let is_over = AtomicBool::new(false);
    let ask = || front.get("/", "").starts_with("HTTP/1.1 503 ");
    let until_over = || (0..).take_while(|_| !is_over.load(Ordering::Relaxed)).filter(|_| ask()).count();
    let rest: usize = thread::scope(|scope| {
        let rest: Vec<_> = (0..60).map(|_| scope.spawn(until_over)).collect();
        let paying = (0..50).all(|_| front.get("/", "Cookie: tier=gold\r\n").starts_with("HTTP/1.1 200 "));
        is_over.store(true, Ordering::Relaxed);
        assert!(paying, "one of the first class has no answer");
        rest.into_iter().map(|user| user.join().unwrap()).sum()
    });
    let classes = &front.status()["classes"];
    assert!(rest > 0 && classes[1]["answered"].as_u64() > Some(0), "{rest} refused: {classes}");
    assert_eq!(
        (classes[0]["refused"].as_u64(), classes[0]["expired"].as_u64()),
        (Some(0), Some(0)),
        "{classes}"
    );
}
