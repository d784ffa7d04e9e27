//! Journeys through the real window, on a desktop of their own.

use crate::support::desk::{Desk, journey};
use crate::support::{Place, mark, processes_with, until};
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
        until("three sleep", || (processes_with(&mark(21)).len() >= 3).then_some(()));
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
        desk.click(note.id).await;
        window.page.shows("north").await;
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
