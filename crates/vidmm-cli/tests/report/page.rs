//! The page in a browser: no errors, keys, names for screen readers, dark and light.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use vidmm_trace::{LogReader, LogWriter, log};

use crate::browser::Browser;
use crate::pictures::is_as_expected;

/// The size of the window.
const WIDTH: u32 = 1200;
const HEIGHT: u32 = 900;

/// Runs the program with these arguments in the root of the workspace. Returns what it prints.
#[track_caller]
pub fn vidmm(arguments: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO_BIN_EXE_vidmm")).args(arguments).current_dir(root).output();
    let output = output.expect("the program starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|code| code < 2), "vidmm {}: {error}", arguments.join(" "));
    String::from_utf8(output.stdout).expect("it prints text")
}

/// The log of a run, and its page.
pub struct Page {
    folder: TempDir,
}

impl Page {
    /// Runs a scenario and writes its page.
    pub fn of(scenario: &str) -> Self {
        let page = Self { folder: tempfile::tempdir().expect("a folder for the page") };
        vidmm(&["run", scenario, "--events", &page.text("run.jsonl")]);
        page.write();
        page
    }

    fn write(&self) {
        vidmm(&["report", &self.text("run.jsonl"), "-o", &self.text("report.html")]);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).into_os_string().into_string().expect("the folder's name is text")
    }

    /// Opens it in a browser, if there is one.
    pub fn open(&self) -> Option<Browser> {
        let mut browser = Browser::start(WIDTH, HEIGHT)?;
        browser.prefer("light");
        browser.open(&self.path("report.html"));
        Some(browser)
    }
}

/// The story of the allocation in the details, when it is there.
pub const STORY: &str = "new Promise((done) => { const look = () => { const story = document.querySelector('#details .story');
    if (story && story.textContent !== 'reading ...') done(story.textContent); else setTimeout(look, 10); }; look(); })";

#[track_caller]
fn has_no_complaints(browser: &mut Browser) {
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn pages_of_many_kinds_of_runs_open_without_errors() {
    for scenario in [
        "scenarios/cyclic.toml",
        "scenarios/two-devices.toml",
        "scenarios/recovery.toml",
        "scenarios/splitting/p34-slot-replaced.toml",
        "scenarios/notification/integrated-training.toml",
        "scenarios/faults/p42-not-mapped.toml",
        "scenarios/segments/two-memory-segments.toml",
    ] {
        let page = Page::of(scenario);
        let Some(mut browser) = page.open() else { return };
        browser.evaluate("[...document.querySelectorAll('details')].forEach((details) => (details.open = true))");
        for key in ["+", "-", ".", ".", "ArrowDown", ",", "[", "0"] {
            browser.evaluate("document.getElementById('timeline').focus()");
            browser.press(key);
        }
        assert_eq!(browser.complaints(), Vec::<String>::new(), "{scenario}");
    }
}

#[test]
fn hostile_names_are_text() {
    let page = Page::of("scenarios/residency/p15-shared.toml");
    let hostile =
        "</script></title><img src=x onerror=\"globalThis.caught = 1\"><script>globalThis.caught = 2</script>\u{2028}";
    let mut reader = LogReader::new(log::open(&page.path("run.jsonl")).expect("it is there")).expect("it is a log");
    let mut header = reader.header().clone();
    header.scenario = hostile.to_owned();
    header.settings.insert(hostile.to_owned(), hostile.to_owned());
    let events: Vec<_> = reader.by_ref().map(|event| event.expect("it is whole")).collect();
    let mut writer = LogWriter::new(File::create(page.path("run.jsonl")).expect("it can be written"), &header);
    events.iter().for_each(|event| writer.event(event));
    writer.finish().expect("it can be written");
    page.write();
    let Some(mut browser) = page.open() else { return };
    assert_eq!(browser.evaluate("globalThis.caught"), Value::Null);
    assert_eq!(browser.evaluate("document.querySelectorAll('img').length"), 0);
    assert_eq!(browser.evaluate("document.getElementById('title').textContent"), hostile);
    assert_eq!(browser.evaluate("document.querySelector('#settings dt').textContent"), hostile);
    has_no_complaints(&mut browser);
}

#[test]
fn the_page_looks_as_expected_in_light_and_dark() {
    let page = Page::of("scenarios/two-devices.toml");
    let Some(mut browser) = page.open() else { return };
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        browser.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
        let picture = browser.picture((0.0, 0.0, f64::from(WIDTH), f64::from(HEIGHT)));
        is_as_expected(&format!("{scheme}.png"), &picture);
    }
    has_no_complaints(&mut browser);
}

#[test]
fn all_is_reached_and_used_with_keys() {
    let page = Page::of("scenarios/two-devices.toml");
    let Some(mut browser) = page.open() else { return };
    let mut reached = Vec::new();
    for _ in 0..40 {
        browser.press("Tab");
        let id = browser.evaluate("document.activeElement.id");
        reached.extend(id.as_str().filter(|id| !id.is_empty()).map(str::to_owned));
    }
    for id in
        ["wanted", "zoom-in", "zoom-out", "earlier", "later", "whole", "layers", "timeline", "segment", "moment", "map"]
    {
        assert!(reached.iter().any(|known| known == id), "{id} is not reached with the Tab key: {reached:?}");
    }
    browser.evaluate("document.getElementById('timeline').focus()");
    let sight = "report.timeline.to - report.timeline.from";
    let whole = browser.evaluate(sight).as_f64().expect("it is a number");
    browser.press("+");
    let half = browser.evaluate(sight).as_f64().expect("it is a number");
    assert!((half - whole / 2.0).abs() < 1.0, "+ shows half: {half} of {whole}");
    let from = browser.evaluate("report.timeline.from").as_f64();
    browser.press("ArrowRight");
    assert!(browser.evaluate("report.timeline.from").as_f64() > from, "the right arrow moves on");
    browser.press(".");
    let heading = browser.evaluate("document.querySelector('#details h3').textContent");
    assert!(heading.as_str().is_some_and(|text| text.starts_with("Paging buffer ")), "{heading}");
    assert_eq!(browser.evaluate("document.activeElement.id"), "timeline", "keys go on in the timeline");
    has_no_complaints(&mut browser);
}

/// Roles of which each element must have a name, by which a screen reader tells it.
const NAMED_ROLES: [&str; 11] = [
    "button",
    "textbox",
    "searchbox",
    "combobox",
    "slider",
    "spinbutton",
    "application",
    "image",
    "table",
    "heading",
    "region",
];

#[test]
fn all_has_a_name_for_screen_readers_and_all_drawings_are_tables_too() {
    let page = Page::of("scenarios/two-devices.toml");
    let Some(mut browser) = page.open() else { return };
    browser.evaluate("[...document.querySelectorAll('details')].forEach((details) => (details.open = true))");
    let tree = browser.call("Accessibility.getFullAXTree", json!({}));
    let nodes = tree["nodes"].as_array().expect("it is a list");
    let mut seen = 0;
    for node in nodes.iter().filter(|node| node["ignored"] != true) {
        let role = node["role"]["value"].as_str().unwrap_or_default();
        if NAMED_ROLES.contains(&role) {
            seen += 1;
            let name = node["name"]["value"].as_str().unwrap_or_default();
            assert!(!name.trim().is_empty(), "an element of role {role} has no name: {node}");
        }
    }
    assert!(seen > 40, "only {seen} elements have roles");
    for table in ["timeline-table", "map-table", "need-table"] {
        let rows = browser.evaluate(&format!("document.querySelectorAll('#{table} tbody tr').length"));
        assert!(rows.as_u64() > Some(1), "{table} has {rows} rows");
    }
    assert_eq!(browser.evaluate("document.documentElement.lang"), "en");
}

#[test]
fn a_click_on_a_range_tells_the_allocation_s_life_as_explain_does() {
    let page = Page::of("scenarios/two-devices.toml");
    let Some(mut browser) = page.open() else { return };
    browser.click("map", (0.4, 0.5));
    let story = browser.evaluate(STORY);
    let name = browser.evaluate("document.querySelector('#details h3').textContent");
    let name = name.as_str().expect("it is text").to_lowercase();
    let explained = vidmm(&["explain", &page.text("run.jsonl"), &name]);
    assert_eq!(story, explained.as_str(), "{name}");
    has_no_complaints(&mut browser);
}

#[test]
fn evictions_are_sorted_by_any_column() {
    let page = Page::of("scenarios/two-devices.toml");
    let Some(mut browser) = page.open() else { return };
    let column = "document.querySelectorAll('#evictions th')[0]";
    let times =
        "[...document.querySelectorAll('#evictions tbody td:first-child')].map((cell) => cell.textContent).slice(0, 3)";
    browser.evaluate(&format!("{column}.firstChild.click()"));
    assert_eq!(browser.evaluate(&format!("{column}.getAttribute('aria-sort')")), "descending");
    let last = browser.evaluate(times);
    browser.evaluate("document.querySelectorAll('#evictions th')[0].firstChild.click()");
    assert_eq!(browser.evaluate(&format!("{column}.getAttribute('aria-sort')")), "ascending");
    assert_ne!(browser.evaluate(times), last);
    let text = "document.querySelector('#evictions [aria-live]').textContent";
    let all = browser.evaluate(text);
    browser.evaluate(
        "(() => { const field = document.querySelector('#evictions input'); field.value = 'allocation 1';
           field.dispatchEvent(new Event('input')); })()",
    );
    assert_ne!(browser.evaluate(text), all, "a filter leaves fewer rows");
    has_no_complaints(&mut browser);
}
