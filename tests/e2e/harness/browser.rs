//! Chromium without a window, driven by its DevTools protocol over a pipe: JSON, each message ended by a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Site, wait_for};

/// How long the browser may take for anything: it starts on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser on a site, with one page. It ends on drop.
pub(crate) struct Browser {
    child: Child,
    orders: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    last_id: u64,
    complaints: Vec<String>,
    _profile: TempDir,
}

/// What a page looks like on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// The colour scheme that its user prefers.
    pub(crate) scheme: &'static str,
}

impl Browser {
    /// Starts Chromium with an empty page.
    pub(crate) fn start(site: &Site) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        // The browser reads orders from descriptor 3, and answers at 4.
        command.args([
            "-c",
            "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null",
            "sh",
            "chromium",
            "--headless=new",
        ]);
        command.args(["--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.args(["--no-first-run", "--disable-background-networking", "--disable-component-update"]);
        command.args(["--hide-scrollbars", "--force-color-profile=srgb", "--lang=en-GB"]);
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        command.env("HOME", profile.path()).env("TZ", "UTC").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = site.namespace.spawn(&mut command).unwrap();
        let (orders, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, messages) = channel();
        thread::spawn(move || {
            for message in BufReader::new(answers).split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else { return };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let complaints = Vec::new();
        let mut browser =
            Self { child, orders, messages, session: None, last_id: 0, complaints, _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let to = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", to);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Performance"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method, and returns its result.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut order = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            order["sessionId"] = session.as_str().into();
        }
        let mut bytes = serde_json::to_vec(&order).unwrap();
        bytes.push(0);
        self.orders.write_all(&bytes).expect("chromium is installed (Debian: chromium) and runs");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left);
            let mut message = message.unwrap_or_else(|error| {
                panic!("chromium (Debian: chromium) does not answer {method}: {error}");
            });
            if message["id"] == self.last_id {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
            self.note(&message);
        }
    }

    /// Remembers what a page should not have: errors, warnings, and what its policy forbids.
    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        let complaint = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => {
                ["error", "warning", "assert"].iter().any(|kind| params["type"] == *kind)
            }
            Some("Log.entryAdded") => {
                ["error", "warning"].iter().any(|level| params["entry"]["level"] == *level)
            }
            _ => false,
        };
        if complaint {
            self.complaints.push(params.to_string());
        }
    }

    /// What the page should not have had since this was asked last.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        // What happened before is told before this is answered.
        self.evaluate("0");
        std::mem::take(&mut self.complaints)
    }

    /// Opens an address.
    pub(crate) fn open(&mut self, url: &str) {
        let opened = self.call("Page.navigate", json!({ "url": url }));
        assert!(opened["errorText"].is_null(), "{url}: {opened}");
        wait_for(&format!("{url} in the browser"), PATIENCE, || {
            (self.evaluate("document.readyState") == "complete").then_some(())
        });
    }

    /// The value of an expression in the page; that of a promise once it has one.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut evaluated = self.call("Runtime.evaluate", params);
        assert!(evaluated["exceptionDetails"].is_null(), "{expression}: {evaluated}");
        evaluated["result"]["value"].take()
    }

    /// Waits until an expression is true in the page.
    pub(crate) fn wait_until(&mut self, what: &str, expression: &str) {
        wait_for(&format!("{what}, in the browser"), PATIENCE, || {
            (self.evaluate(expression) == true).then_some(())
        });
    }

    /// Clicks into the middle of the element that an expression has.
    pub(crate) fn click(&mut self, element: &str) {
        let middle = format!(
            "(() => {{ const node = {element}; node.scrollIntoView({{ block: 'center' }}); \
             const {{ x, y, width, height }} = node.getBoundingClientRect(); return [x + width / 2, y + height / 2]; }})()"
        );
        let middle = self.evaluate(&middle);
        for kind in ["mousePressed", "mouseReleased"] {
            let params =
                json!({ "type": kind, "x": middle[0], "y": middle[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", params);
        }
    }

    /// Presses a key, by its name in the DOM and its code in Windows.
    pub(crate) fn press(&mut self, key: &str, code: u8) {
        let text = if key == "Enter" { "\r" } else { "" };
        let params = json!({ "type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
        self.call("Input.dispatchKeyEvent", params);
        let params = json!({ "type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code });
        self.call("Input.dispatchKeyEvent", params);
    }

    /// Types a text into what has the focus.
    pub(crate) fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// The names by which those who do not see the page know its elements of a role.
    pub(crate) fn names_of(&mut self, role: &str) -> Vec<String> {
        let tree = self.call("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().unwrap().iter();
        let with_role = nodes.filter(|node| node["ignored"] != true && node["role"]["value"] == role);
        with_role.map(|node| node["name"]["value"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Has the page be shown on a screen.
    pub(crate) fn show_on(&mut self, screen: Screen) {
        let Screen { width, height, scheme } = screen;
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// The page as a picture, in WebP.
    pub(crate) fn picture(&mut self) -> Vec<u8> {
        let params = json!({ "format": "webp", "quality": 50 });
        let picture = self.call("Page.captureScreenshot", params);
        STANDARD.decode(picture["data"].as_str().unwrap()).unwrap()
    }

    /// One of the metrics of the page, by its name in the protocol, when nothing is left to be thrown away.
    pub(crate) fn metric(&mut self, name: &str) -> f64 {
        self.call("HeapProfiler.collectGarbage", json!({}));
        let metrics = self.call("Performance.getMetrics", json!({}));
        let metric = metrics["metrics"].as_array().unwrap().iter().find(|metric| metric["name"] == name);
        metric.unwrap_or_else(|| panic!("no metric {name}: {metrics}"))["value"].as_f64().unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Both fail only for a browser that has ended.
        let _ = killpg(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}
