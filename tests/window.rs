//! Journeys through the real window, on a desktop of their own.

use crate::support::desk::{Desk, journey};
use crate::support::{Place, mark, processes_with, sleepers, until};
use fantoccini::key::Key;
use serde_json::{Value, json};

fn delegate(label: &str) -> Value {
    json!({ "call": { "tool": "subagent", "args": { "description": label, "prompt": "Do it.", "run_in_background": true } } })
}

/// A child that looks into a file and then waits at its gate.
fn waits_at(gate: &str) -> Value {
    json!({ "steps": [
        [{ "say": "I begin." }, { "call": { "tool": "read_file", "args": { "path": "read.me" } } }],
        [{ "until_file": gate }, { "say": "I was let through." }],
        [{ "say": "I heard you." }],
    ] })
}

fn fan_out() -> Place {
    Place::new(json!({ "sessions": {
        "root": { "steps": [
            [delegate("north"), delegate("east"), delegate("south")],
            [{ "say": "Three are at work." }],
            [{ "say": "One has ended." }],
            [{ "say": "Two have ended." }],
            [{ "say": "All have ended." }],
        ] },
        "north": waits_at("north"),
        "east": waits_at("east"),
        "south": waits_at("south"),
    } }))
}

/// Waits for an ask and allows it, from the terminal. Answers its id.
fn allow(place: &Place) -> String {
    let ask = until("an ask", || {
        let asks: Value = serde_json::from_str(&place.run(["asks", "--json"]).out).ok()?;
        asks["asks"][0]["id"].as_str().map(str::to_owned)
    });
    let answered = place.run(["answer", &ask, "once"]);
    assert_eq!(answered.code, Some(0), "{answered:?}");
    ask
}

/// Begins a session from the first screen.
async fn begin(page: &crate::support::page::Page, words: &str) {
    page.write("The job", words).await;
    page.press("Start").await;
}

#[test]
fn a_first_run_leads_from_the_empty_window_to_a_fan_out_and_its_answer() {
    journey(async {
        let (desk, place) = (Desk::new(true).await, fan_out());
        let window = desk.open(&place).await;
        window.page.sees("What should be done?").await;
        window.page.shoot("first-run").await;
        begin(&window.page, "Survey the garden").await;
        for label in ["north", "east", "south"] {
            window.page.row(label).await;
        }
        window.page.sees("Three are at work.").await;
        window.page.shoot("fan-out").await;
        for gate in ["north", "east", "south"] {
            place.open_gate(gate);
        }
        window.page.row("completed").await;
        window.page.sees("ended.").await;
        window.page.shoot("answer").await;
        window.close().await;
    });
}

#[test]
fn a_running_child_is_opened_and_steered_and_the_message_has_its_receipt() {
    journey(async {
        let (desk, place) = (Desk::new(true).await, fan_out());
        let window = desk.open(&place).await;
        begin(&window.page, "Survey the garden").await;
        window.page.row("north").await.click().await.unwrap();
        window.page.shows("north").await;
        window.page.sees("Joins the running turn at its next step").await;
        window.page.write("Message to north", "Look twice").await;
        window.page.enter("Message to north").await;
        window.page.sees("Look twice").await;
        place.open_gate("north");
        window.page.sees("Joined the running turn").await;
        window.page.sees("I heard you.").await;
        window.page.shoot("steered").await;
        window.close().await;
    });
}

#[test]
fn a_stopped_child_leaves_no_process_behind_and_its_receipt_says_so() {
    journey(async {
        let desk = Desk::new(true).await;
        let place = Place::new(json!({ "sessions": {
        "root": { "steps": [[delegate("build")], [{ "say": "It builds." }], [{ "say": "It was stopped." }]] },
        "build": { "steps": [[{ "call": { "tool": "bash", "args": {
            "command": format!("setsid sh -c 'sleep {0} & sleep {0}' & sleep {0}", mark(21)),
        } } }]] },
    } }));
        let window = desk.open(&place).await;
        begin(&window.page, "Build it").await;
        window.page.row("build").await.click().await.unwrap();
        window.page.shows("build").await;
        allow(&place);
        until("three sleep", || (sleepers(&mark(21)) == 3).then_some(()));
        window.page.press("Stop turn").await;
        window.page.sees("seen gone").await;
        assert_eq!(processes_with(&mark(21)), [""; 0]);
        window.page.shoot("stopped").await;
        window.close().await;
    });
}

#[test]
fn after_a_restart_everything_is_there_and_a_finished_child_takes_a_message() {
    journey(async {
        let (desk, place) = (Desk::new(true).await, fan_out());
        for gate in ["north", "east", "south"] {
            place.open_gate(gate);
        }
        let window = desk.open(&place).await;
        begin(&window.page, "Survey the garden").await;
        window.page.row("completed").await;
        window.page.sees("ended.").await;
        window.close().await;
        let window = desk.open(&place).await;
        window.page.row("Survey the garden").await;
        window.page.row("east").await.click().await.unwrap();
        window.page.shows("east").await;
        window.page.sees("I was let through.").await;
        window.page.sees("Wakes this child").await;
        window.page.write("Message to east", "Once more").await;
        window.page.press("Wake and send").await;
        window.page.sees("I heard you.").await;
        window.page.shoot("resumed").await;
        window.close().await;
    });
}

#[test]
fn an_end_reaches_the_desktop_and_a_click_opens_the_exact_place() {
    journey(async {
        let (desk, place) = (Desk::new(true).await, fan_out());
        let window = desk.open(&place).await;
        begin(&window.page, "Survey the garden").await;
        window.page.row("north").await;
        // What the focused window shows is not told: look at something else.
        window.page.press("New session").await;
        begin(&window.page, "Something else").await;
        window.page.shows("Something else").await;
        place.open_gate("north");
        let note = until("a notification", || desk.shown().into_iter().find(|note| note.title.contains("north")));
        assert_eq!((note.title.as_str(), note.body.as_str()), ("north completed", "In Survey the garden"));
        place.open_gate("east");
        let later = until("a later one", || desk.shown().into_iter().find(|note| note.title.contains("east")));
        until("it takes the place of the one before", || desk.closed(note.id).then_some(()));
        desk.click(later.id).await;
        window.page.shows("east").await;
        window.close().await;
    });
}

#[test]
fn an_ask_reaches_the_desktop_and_the_tray_and_is_taken_back_when_it_is_answered() {
    journey(async {
        let desk = Desk::with_tray().await;
        let place = Place::new(json!({ "sessions": {
            "root": { "steps": [[delegate("build")], [{ "say": "It builds." }], [{ "say": "It is built." }]] },
            "build": { "steps": [[{ "until_file": "go" }, { "call": { "tool": "bash", "args": { "command": "echo x > sub/made" } } }], [{ "say": "Built." }]] },
        } }));
        // The work folder is the home folder here, and nothing new is made directly in one of those.
        std::fs::create_dir(place.work().join("sub")).unwrap();
        let window = desk.open(&place).await;
        begin(&window.page, "Build it").await;
        window.page.row("build").await;
        // What the focused window shows is not told: look at something else.
        window.page.press("New session").await;
        window.page.write("The job", "Something else").await;
        place.open_gate("go");
        let note = until("a notification", || desk.shown().into_iter().find(|note| note.title.contains("needs you")));
        assert_eq!(
            (note.title.as_str(), note.body.as_str()),
            ("build needs you", "Run echo x > sub/made. In Build it")
        );
        let tray = desk.tray.as_ref().unwrap();
        let named = || tray.menu().into_iter().any(|(line, _)| line == "build: Run echo x > sub/made");
        until("the tray names it", || named().then_some(()));
        tray.press("build: Run echo x > sub/made");
        window.page.shows("Needs you").await;
        window.page.sees("echo x > sub/made").await;
        assert!(!place.work().join("sub/made").exists());
        allow(&place);
        until("it is taken back", || desk.closed(note.id).then_some(()));
        until("the tray names it no more", || (!named()).then_some(()));
        until("it is made", || place.work().join("sub/made").exists().then_some(()));
        window.close().await;
    });
}

#[test]
fn without_a_notification_service_the_window_says_so_and_goes_on() {
    journey(async {
        let (desk, place) = (Desk::new(false).await, fan_out());
        let window = desk.open(&place).await;
        begin(&window.page, "Survey the garden").await;
        window.page.sees("No notification service answers").await;
        window.page.row("south").await;
        window.close().await;
    });
}

#[test]
fn a_window_that_nothing_would_bring_back_is_never_hidden() {
    journey(async {
        let (desk, place) = (Desk::new(false).await, fan_out());
        let window = desk.open(&place).await;
        begin(&window.page, "Survey the garden").await;
        window.page.row("north").await;
        let count =
            "window.hides = 0; document.addEventListener('visibilitychange', () => window.hides += 1); return true";
        window.page.holds(count).await;
        window.page.keys(Key::Control, 'q').await;
        window.page.press("Keep running without a window").await;
        window.page.holds("return document.querySelector('dialog[open]') === null").await;
        // What comes back was hidden before, and the page is told of both in their order.
        desk.start_again(&place);
        window.page.row("south").await;
        window.page.holds("return !document.hidden && window.hides === 0").await;
        window.close().await;
    });
}

const AT_THE_END: &str = "const log = document.querySelector('[role=log]'); \
                          return log.scrollHeight > log.clientHeight && log.scrollHeight - log.scrollTop - log.clientHeight < 2";

#[test]
fn a_long_transcript_opens_at_its_end_and_the_window_itself_never_scrolls() {
    journey(async {
        let desk = Desk::new(true).await;
        let long = |word: &str| {
            let parts: Vec<String> = (1..30).map(|n| format!("{word} {n}\n\n```\ncode {n}\n```\n\n")).collect();
            json!([{ "say": parts.concat() }])
        };
        let place = Place::new(json!({ "sessions": {
            "root": { "steps": [[delegate("north"), delegate("east")], long("root"), long("again"), long("more")] },
            "north": { "steps": [long("north")] },
            "east": { "steps": [long("east")] },
        } }));
        let window = desk.open(&place).await;
        begin(&window.page, "Survey the garden").await;
        window.page.row("completed").await;
        for _ in 0..2 {
            for label in ["north", "east"] {
                window.page.row(label).await.click().await.unwrap();
                window.page.shows(label).await;
                window.page.holds(AT_THE_END).await;
            }
        }
        window.page.holds("return document.documentElement.scrollHeight === innerHeight").await;
        window.page.shoot("long").await;
        window.close().await;
    });
}

/// What a page is known by that was loaded and asks anew, where it cannot be driven any more.
const FOLLOWS: &str = "the page follows session=";

#[test]
fn a_branch_is_archived_and_brought_back_and_deleted_after_a_question_and_stays_gone() {
    journey(async {
        let (desk, place) = (Desk::new(true).await, fan_out());
        let window = desk.open(&place).await;
        begin(&window.page, "Survey the garden").await;
        window.page.row("north").await;
        // What runs is asked about, and named.
        window.page.press("More").await;
        window.page.choose("Archive branch").await;
        window.page.sees("3 run in it and are stopped first").await;
        window.page.press("Stop and archive").await;
        window.page.sees("Archived Survey the garden.").await;
        window.page.row("1 archived").await;
        window.page.press("Undo").await;
        window.page.row("Survey the garden").await;
        window.page.holds("return !document.body.innerText.includes('1 archived')").await;
        window.page.press("More").await;
        window.page.choose("Delete").await;
        window.page.sees("4 sessions with").await;
        // The focus begins on the way out: a press of Enter deletes nothing.
        window.page.holds("return document.activeElement.innerText.startsWith('Cancel')").await;
        window.page.press_in_dialog("Delete").await;
        window.page.sees("What should be done?").await;
        assert_eq!(place.run(["tree"]).out, "No sessions. `coppice run \"...\"` begins one.\n");
        window.close().await;
        let window = desk.open(&place).await;
        window.page.sees("What should be done?").await;
        window.close().await;
    });
}

#[test]
fn the_page_comes_back_with_its_draft_when_the_process_that_shows_it_is_killed() {
    journey(async {
        let (desk, place) = (Desk::new(true).await, fan_out());
        let window = desk.open(&place).await;
        begin(&window.page, "Survey the garden").await;
        window.page.row("north").await.click().await.unwrap();
        window.page.shows("north").await;
        window.page.write("Message to north", "Look tw").await;
        let before = window.logged(FOLLOWS);
        window.kill_page();
        until("a new page follows", || (window.logged(FOLLOWS) > before).then_some(()));
        place.open_gate("north");
        until("the work went on", || place.run(["tree"]).out.contains("completed").then_some(()));
        window.close().await;
        let window = desk.open(&place).await;
        window.page.shows("north").await;
        let draft = "return document.querySelector('textarea').value === 'Look tw'";
        window.page.holds(draft).await;
        window.close().await;
    });
}

#[test]
fn a_page_whose_process_ends_twice_within_seconds_is_loaded_when_the_window_is_asked_for() {
    journey(async {
        let (desk, place) = (Desk::new(true).await, fan_out());
        let window = desk.open(&place).await;
        begin(&window.page, "Survey the garden").await;
        window.page.row("north").await;
        let before = window.logged(FOLLOWS);
        window.kill_page();
        until("a new page follows", || (window.logged(FOLLOWS) > before).then_some(()));
        window.kill_page();
        until("it has ended again", || (window.logged("again=true") == 1).then_some(()));
        let after = window.logged(FOLLOWS);
        assert_eq!(after, before + 1, "a page was loaded that nobody asked for");
        desk.start_again(&place);
        until("a new page follows", || (window.logged(FOLLOWS) > after).then_some(()));
        window.close().await;
    });
}

#[test]
fn a_quit_with_work_asks_and_who_keeps_it_running_gets_the_window_back_by_another_start() {
    journey(async {
        let (desk, place) = (Desk::new(true).await, fan_out());
        let window = desk.open(&place).await;
        begin(&window.page, "Survey the garden").await;
        window.page.row("north").await;
        window.page.keys(Key::Control, 'q').await;
        window.page.sees("Start Coppice again to bring its window back.").await;
        window.page.shoot("quit").await;
        window.page.press("Cancel").await;
        window.page.keys(Key::Control, 'q').await;
        window.page.press("Keep running without a window").await;
        window.page.holds("return document.hidden").await;
        let note =
            until("a notice", || desk.shown().into_iter().find(|note| note.title.contains("without its window")));
        assert_eq!(
            note.body,
            "3 runs are still at work. Click here, or start Coppice again, to bring the window back."
        );
        place.open_gate("north");
        until("an end is told", || desk.shown().into_iter().find(|note| note.title.contains("north")).map(drop));
        desk.start_again(&place);
        window.page.holds("return !document.hidden").await;
        window.page.keys(Key::Control, 'q').await;
        // It may end before it answers.
        let _ = window.page.find("//button[normalize-space(.)='Stop all and quit']").await.click().await;
        window.gone().await;
    });
}

#[test]
fn a_quit_without_work_asks_nothing() {
    journey(async {
        let (desk, place) = (Desk::new(true).await, fan_out());
        let window = desk.open(&place).await;
        window.page.sees("What should be done?").await;
        window.page.keys(Key::Control, 'q').await;
        window.gone().await;
    });
}

#[test]
fn the_tray_says_what_runs_brings_the_window_back_and_stops() {
    journey(async {
        let (desk, place) = (Desk::with_tray().await, fan_out());
        let window = desk.open(&place).await;
        let tray = desk.tray.as_ref().unwrap();
        let says = |line: &str| {
            until(line, || tray.menu().first().filter(|(label, _)| label == line).map(drop));
        };
        says("Nothing runs");
        assert_eq!(tray.title(), "Coppice");
        begin(&window.page, "Survey the garden").await;
        says("3 run");
        window.page.row("north").await;
        window.page.keys(Key::Control, 'q').await;
        window.page.press("Keep running without a window").await;
        window.page.holds("return document.hidden").await;
        tray.press("Open Coppice");
        window.page.holds("return !document.hidden").await;
        tray.press("Quit");
        window.page.sees("3 run in 1 session.").await;
        window.page.press("Cancel").await;
        tray.press("Stop everything");
        says("Nothing runs");
        tray.press("Quit");
        window.gone().await;
    });
}
