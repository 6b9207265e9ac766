//! Chromium without a window, driven through its debugging protocol.
//!
//! The protocol runs over two pipes, so it takes no network and no library: messages are JSON, with a zero behind each.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The longest time that the browser may take for an answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// The browser reads commands at descriptor 3 and answers at descriptor 4; a shell puts the pipes there.
const SHELL: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null";

/// Options that make pictures alike on all machines.
const OPTIONS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--font-render-hinting=none",
    "--disable-lcd-text",
    "--no-first-run",
    "--remote-debugging-pipe",
];

/// A browser with one page.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    answers: Receiver<Value>,
    session: Option<String>,
    next: u64,
    /// The browser's messages that no command asked for.
    events: VecDeque<Value>,
    _profile: TempDir,
}

/// The browser of this machine, if it has one.
///
/// # Panics
///
/// If it has none and `VIDMM_REQUIRE_CHROMIUM` is set.
fn chromium() -> Option<PathBuf> {
    let named = std::env::var_os("VIDMM_CHROMIUM").map(PathBuf::from);
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = folders.iter().flat_map(|folder| names.map(|name| folder.join(name))).find(|path| path.is_file());
    let found = named.or(found);
    let is_required = std::env::var_os("VIDMM_REQUIRE_CHROMIUM").is_some_and(|value| value != "0");
    assert!(
        found.is_some() || !is_required,
        "there is no chromium in PATH, and VIDMM_REQUIRE_CHROMIUM says that there must be"
    );
    found
}

impl Browser {
    /// Starts the browser of this machine with a window of this size; none if there is no browser, which is said.
    pub fn start(width: u32, height: u32) -> Option<Self> {
        let Some(path) = chromium() else {
            eprintln!("skipped: there is no chromium in PATH");
            return None;
        };
        let profile = tempfile::tempdir().expect("a folder for the browser");
        let mut command = Command::new("sh");
        command.args(["-c", SHELL]).arg(path).args(OPTIONS);
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the browser starts");
        let input = child.stdin.take().expect("it is a pipe");
        let output = BufReader::new(child.stdout.take().expect("it is a pipe"));
        let (sender, answers) = channel();
        thread::spawn(move || {
            for message in output.split(0) {
                let Ok(message) = message else { return };
                let message = serde_json::from_slice(&message).expect("the protocol is JSON");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let events = VecDeque::new();
        let mut browser = Self { child, input, answers, session: None, next: 0, events, _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        browser.call("Emulation.setDeviceMetricsOverride", size);
        Some(browser)
    }

    /// Calls a method of the protocol.
    #[track_caller]
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.try_call(method, parameters).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn try_call(&mut self, method: &str, parameters: Value) -> Result<Value, Value> {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).expect("the browser listens");
        loop {
            let answer = self.answers.recv_timeout(PATIENCE).expect("the browser answers");
            if answer["id"] != self.next {
                self.events.push_back(answer);
                continue;
            }
            return answer.get("error").map_or_else(|| Ok(answer["result"].clone()), |error| Err(error.clone()));
        }
    }

    /// Prefers dark or light colours.
    pub fn prefer(&mut self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Opens a page, and waits until it has drawn itself. Returns the time that this took.
    pub fn open(&mut self, page: &Path) -> Duration {
        let begun = Instant::now();
        self.call("Page.navigate", json!({ "url": format!("file://{}", page.display()) }));
        while !self.is_ready() {
            assert!(begun.elapsed() < PATIENCE, "the page does not get ready: {:?}", self.complaints());
            thread::sleep(Duration::from_millis(10));
        }
        begun.elapsed()
    }

    /// Whether the page has drawn itself. While it is being loaded there is none to be asked.
    fn is_ready(&mut self) -> bool {
        let expression = "document.documentElement?.dataset.ready === 'true'";
        let answer = self.try_call("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }));
        answer.is_ok_and(|answer| answer["result"]["value"] == true)
    }

    /// The value of an expression of the page, which may be a promise.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", parameters);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Presses a key, as a person does.
    pub fn press(&mut self, key: &str) {
        let text = if key.chars().count() == 1 { key } else { "" };
        let text = if key == "Enter" { "\r" } else { text };
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            _ => 0,
        };
        let event = json!({ "type": "keyDown", "key": key, "text": text, "windowsVirtualKeyCode": code });
        self.call("Input.dispatchKeyEvent", event);
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code }));
    }

    /// Clicks at a point of the element with this id, in parts of its width and height.
    pub fn click(&mut self, id: &str, (x, y): (f64, f64)) {
        let place = self.evaluate(&format!(
            "(() => {{ const element = document.getElementById('{id}'); element.scrollIntoView({{ block: 'center' }});
               const box = element.getBoundingClientRect(); return [box.left, box.top, box.width, box.height]; }})()"
        ));
        let number = |index: usize| place[index].as_f64().expect("it is a number");
        let (x, y) = (number(0) + x * number(2), number(1) + y * number(3));
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// A picture of a part of the page, as PNG.
    pub fn picture(&mut self, (x, y, width, height): (f64, f64, f64, f64)) -> Vec<u8> {
        let clip = json!({ "x": x, "y": y, "width": width, "height": height, "scale": 1 });
        let parameters = json!({ "format": "png", "clip": clip, "captureBeyondViewport": true });
        let answer = self.call("Page.captureScreenshot", parameters);
        STANDARD.decode(answer["data"].as_str().expect("it is text")).expect("it is base64")
    }

    /// Errors and warnings of the page so far, and requests for anything but the page itself.
    pub fn complaints(&mut self) -> Vec<String> {
        self.evaluate("0");
        let mut complaints = Vec::new();
        for event in &self.events {
            let parameters = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => complaints.push(parameters["exceptionDetails"].to_string()),
                "Runtime.consoleAPICalled" => complaints.push(parameters["args"].to_string()),
                "Log.entryAdded" => complaints.push(parameters["entry"].to_string()),
                "Network.requestWillBeSent" => {
                    let url = parameters["request"]["url"].as_str().unwrap_or_default();
                    if !(url.starts_with("file:///") && url.ends_with(".html")) && url != "about:blank" {
                        complaints.push(format!("it asks for {url}"));
                    }
                }
                _ => {}
            }
        }
        complaints
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
