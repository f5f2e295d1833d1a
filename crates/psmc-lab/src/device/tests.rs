use super::*;

const BOX: &str = r#"
version = 1
name = "box"

[provenance]
confidence = "estimated"
source = "a data sheet"

[[port]]
count = 2
rate = "100mbit"

[[port]]
rate = "10mbit"
queue = 0.5
discipline = "codel"
extra = "5us"

[cpu]
time = "2us"
ring = 300
shared = true

[[size]]
bytes = 46
delay = "12.997us"
served = { value = 4, low = 3.5, confidence = "at-least" }
queued = 400

[[size]]
bytes = 1482
delay = { value = "40us", low = "39us", high = "45us", confidence = "measured" }
served = 2
queued = 100
"#;

fn parse(text: &str) -> Result<DeviceProfile, ConfigError> {
    DeviceProfile::parse(text, Path::new("box.toml"))
}

/// What is complained about in the file with something else in it.
fn complaint(old: &str, new: &str) -> String {
    assert!(BOX.contains(old), "{old}");
    parse(&BOX.replace(old, new)).expect_err("it is wrong").to_string()
}

#[test]
fn a_file_says_what_was_written() {
    let profile = parse(BOX).expect("it is right");
    assert_eq!(profile.sizes[0].served.estimate.high, f64::INFINITY);
    assert_eq!(profile.sizes[1].delay.confidence, Confidence::Measured);
    assert_eq!(parse(&profile.to_toml()).expect("it is written as it is read"), profile);
}

#[test]
fn ports_beyond_those_of_the_profile_are_like_the_last() {
    let config = parse(BOX).expect("it is right").config(4).expect("it fits");
    assert_eq!(
        config.ports().iter().map(|port| port.rate / 1_000_000).collect::<Vec<_>>(),
        [100, 100, 10, 10]
    );
    assert_eq!(config.servers().get(), 4.0);
    assert_eq!(config.tables().servers.of(1482).get(), 2.0);
    assert_eq!((config.ports()[0].slots.get(), config.ports()[3].slots.get()), (100.0, 50.0));
    assert_eq!(config.tables().slots.of(46).get(), 0.25);
    assert_eq!(config.tables().delay.of(46), Duration::from_nanos(12_997));
}

#[test]
fn what_was_never_short_never_is() {
    let text = BOX.replace("served = 2", r#"served = { value = 2, confidence = "at-least" }"#);
    let text = text.replace("queued = 100", r#"queued = { value = 0.5, confidence = "at-least" }"#);
    let config = parse(&text).expect("it is right").config(2).expect("it fits");
    assert_eq!(config.ports()[0].slots.get(), 1000.0);
    let [short, long] = [46, 1482].map(|bytes| config.tables().servers.of(bytes).get());
    assert!(config.servers().get() / short.max(long) > 1e8);
}

#[test]
fn nonsense_is_complained_about() {
    let wrong = [
        ("version = 1", "version = 2", "this program reads version 1"),
        ("bytes = 1482", "bytes = 46", "46 bytes come after 46"),
        ("low = 3.5", "low = 4.5", "does not lie between its own bounds"),
        ("queued = 400", "queued = 0", "0 is out of range"),
        ("delay = \"12.997us\"", "delay = \"11s\"", "choose at most 10s"),
        ("rate = \"100mbit\"", "rate = \"0mbit\"", "the rate of a link is not 0"),
        ("[provenance]", "[provenence]", "did you mean `provenance`?"),
        ("served = 2", "servers = 2", "did you mean `served`?"),
        ("source = \"a data sheet\"", "", "add source"),
        ("ring = 300", "ring = 0", "0 is out of range"),
        ("queue = 0.5", "queue = 0.000001", "no device is like this"),
    ];
    for (old, new, expected) in wrong {
        let text = complaint(old, new);
        assert!(text.contains(expected), "{new}: {text}");
    }
    assert!(parse("").expect_err("it is empty").complaints().len() >= 5);
}
