//! The three questions of docs/guides/report.md are answered from the page, and its pictures are of this page.

use serde_json::Value;

use crate::browser::Browser;
use crate::page::{Page, vidmm};
use crate::pictures::is_as_documented;

/// Opens the page of a scenario, if there is a browser.
fn opened(scenario: &str) -> Option<(Page, Browser)> {
    let page = Page::of(scenario);
    page.open().map(|browser| (page, browser))
}

/// Writes into the field at the top, and opens what is named.
fn find(browser: &mut Browser, text: &str) {
    browser.evaluate(&format!(
        "(() => {{ const field = document.getElementById('wanted'); field.value = '{text}'; field.focus(); }})()"
    ));
    browser.press("Enter");
}

/// A picture of these elements of the page, from the first to the last. Its corners are whole pixels: browsers round others differently.
fn picture(browser: &mut Browser, first: &str, last: &str, height_max: f64) -> Vec<u8> {
    browser.evaluate("scrollTo(0, 0), document.activeElement.blur()");
    let place = browser.evaluate(&format!(
        "(() => {{ const first = document.querySelector('{first}').getBoundingClientRect();
           const last = document.querySelector('{last}').getBoundingClientRect();
           return [Math.floor(first.top + scrollY) - 8, Math.ceil(last.bottom + scrollY) + 8]; }})()"
    ));
    let (top, bottom) = (place[0].as_f64().expect("a number"), place[1].as_f64().expect("a number"));
    browser.picture((0.0, top, 1200.0, (bottom - top).min(height_max)))
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn the_page_says_why_a_frame_took_long() {
    let Some((_page, mut browser)) = opened("scenarios/frames.toml") else { return };
    find(&mut browser, "submission 812");
    let heading = browser.evaluate("document.querySelector('#details h3').textContent");
    assert_eq!(heading, "Submission 812 of device 0 of process 0");
    let answer = browser.evaluate("document.querySelector('#details p').textContent");
    let answer = answer.as_str().expect("it is text");
    assert!(
        answer.contains("it took 40 ms") && answer.contains("its engine stood still until paging buffer"),
        "{answer}"
    );
    // The parts of its time are all of it.
    let parts = browser.evaluate(
        "(() => { const { model, timeline } = report; const { waits, packets } = model.tables; const row = timeline.selected;
           const parts = (model.waitsOfPacket.get(row) ?? []).map((wait) => waits.to[wait] - waits.from[wait]);
           return [packets.end[row] - packets.submitted[row], packets.end[row] - packets.start[row] + parts.reduce((a, b) => a + b, 0)]; })()",
    );
    assert_eq!(parts[0], parts[1], "the parts add up to the whole");
    browser.evaluate("report.timeline.show(12.40e9, 12.56e9)");
    is_as_documented("report-frame.png", &picture(&mut browser, "#timeline-title", "#details", 1000.0));
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn the_page_says_which_device_pushed_a_texture_out_and_what_that_cost() {
    let Some((_page, mut browser)) = opened("scenarios/frames.toml") else { return };
    browser.evaluate(
        "(() => { const field = document.querySelector('#evictions input'); field.value = 'device 1 of process 1 for';
           field.dispatchEvent(new Event('input')); document.querySelector('#evictions td:nth-child(2) button').click(); })()",
    );
    let cells = browser.evaluate("[...document.querySelectorAll('#details td')].map((cell) => cell.textContent)");
    let has = |text: &str| cells.as_array().is_some_and(|cells| cells.iter().any(|cell| cell == text));
    assert!(has("device 1 of process 1"), "the model is named as the beneficiary: {cells}");
    let story = browser.evaluate(crate::page::STORY);
    let wanted = "because its room was wanted and it was the next by priority and age (lru), for device 1 of process 1";
    let words = |text: &Value| text.as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&story).contains(wanted), "{story}");
    is_as_documented("report-texture.png", &picture(&mut browser, "#details", "#details", 700.0));
}

/// The part of the time that a run loses with so much memory.
fn lost(scenario: &str, memory: &str) -> f64 {
    let text = vidmm(&["run", scenario, "--local-memory", memory]);
    let part = text.lines().find_map(|line| line.split_once("behind work; ")?.1.split_once(" %"));
    part.and_then(|(percent, _)| percent.parse::<f64>().ok()).expect("the run tells it") / 100.0
}

/// Compares the answer of a page with runs: with a tenth more memory than it says no more than 5 % of the time is lost, and with a
/// fifth less more than that.
fn needs_about_what_the_page_says(scenario: &str) -> Option<(Page, Browser)> {
    let (page, mut browser) = opened(scenario)?;
    let needed = browser.evaluate("report.need.needed(0.05)?.memory ?? null");
    let Some(needed) = needed.as_f64() else { panic!("the page has no answer: {needed}") };
    let answer = browser.evaluate("document.getElementById('need-answer').textContent");
    let at = |part: f64| lost(scenario, &((needed * part) as u64).to_string());
    let (above, below) = (at(1.1), at(0.8));
    println!("{scenario}: {answer} Runs lose {above} with a tenth more than that, and {below} with a fifth less.");
    assert!(above <= 0.05, "{answer} A run with a tenth more loses {above}");
    assert!(below > 0.05, "{answer} A run with a fifth less loses {below}");
    Some((page, browser))
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn the_page_says_how_much_memory_a_workload_would_need() {
    needs_about_what_the_page_says("scenarios/textures.toml");
    if let Some((_page, mut browser)) = needs_about_what_the_page_says("scenarios/training.toml") {
        is_as_documented("report-need.png", &picture(&mut browser, "#need-title", "#need", 500.0));
    }
}
