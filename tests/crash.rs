//! A crash of the real program: what ran in its folder ends and is told, and nothing else is touched.

use crate::support::{Place, child, crash, mark, processes_with, sleepers, until};
use serde_json::{Value, json};

/// A root that starts a command in the background, of which one process leaves its session.
fn sleeper(mark: &str) -> Value {
    let command = format!("setsid sleep {mark} & sleep {mark} & wait");
    json!({ "sessions": { "root": { "steps": [
        [{ "call": { "tool": "bash", "args": { "command": command, "run_in_background": true } } }],
        [{ "say": "It sleeps." }],
    ] } } })
}

#[test]
fn nothing_is_lost_doubled_or_left_behind_by_a_crash_at_any_instant() {
    let findings = crash::rounds(12, 0x5eed);
    assert!(findings.faults.is_empty(), "{:#?}", findings.faults);
    // It did see something.
    assert_eq!((findings.rounds, findings.recoveries.len()), (12, 12));
    assert!(findings.messages > 12 && findings.tasks > 12, "{} messages, {} tasks", findings.messages, findings.tasks);
}

#[test]
fn a_crash_and_the_start_after_it_end_what_ran_in_their_own_folder_and_touch_no_other() {
    let (mine, other) = (Place::new(sleeper(&mark(21))), Place::new(sleeper(&mark(22))));
    let (mut first, mut second) = (mine.rpc(), other.rpc());
    for (rpc, place) in [(&mut first, &mine), (&mut second, &other)] {
        let root = rpc.open(place);
        rpc.call("prompt", json!({ "session": root, "text": "Go", "key": "p" }));
    }
    until("all sleep", || (sleepers(&mark(21)) == 2 && sleepers(&mark(22)) == 2).then_some(()));
    let untouched = processes_with(&mark(22));
    first.running.signal("-KILL");
    first.running.ended();
    let mut again = mine.rpc();
    let tree = again.call("tree", json!({}));
    assert_eq!(tree["tasks"][0]["status"], "interrupted");
    until("nothing of it is left", || processes_with(&mark(21)).is_empty().then_some(()));
    assert_eq!(processes_with(&mark(22)), untouched);
    assert_eq!(second.call("tree", json!({}))["tasks"][0]["status"], "running");
    assert_eq!(second.end(), Some(0));
    assert_eq!(processes_with(&mark(22)), [""; 0]);
    assert_eq!(again.end(), Some(0));
}

#[test]
fn a_second_program_on_a_folder_changes_nothing_of_what_runs_in_it() {
    let place = Place::new(sleeper(&mark(23)));
    let mut rpc = place.rpc();
    let root = rpc.open(&place);
    rpc.call("prompt", json!({ "session": root, "text": "Go", "key": "p" }));
    until("both sleep", || (sleepers(&mark(23)) == 2).then_some(()));
    rpc.until("the turn is over", |tree| (tree["sessions"][0]["state"] == "idle").then_some(()));
    let before = (rpc.call("tree", json!({})), rpc.call("events", json!({ "session": root })));
    let mut second = place.rpc();
    assert_eq!(second.message()["error"]["code"], "held_elsewhere");
    assert_eq!(second.running.ended(), Some(1));
    assert_eq!((rpc.call("tree", json!({})), rpc.call("events", json!({ "session": root }))), before);
    assert_eq!(sleepers(&mark(23)), 2);
    assert_eq!(rpc.end(), Some(0));
}

#[test]
fn a_call_that_a_crash_cut_off_is_answered_once_and_the_session_takes_a_message() {
    let sleep = |n| json!({ "call": { "tool": "bash", "args": { "command": format!("sleep {}", mark(n)) } } });
    let place = Place::new(json!({ "sessions": { "root": { "steps": [
        [sleep(24), sleep(25)], [{ "say": "I go on." }], [{ "say": "And on." }],
    ] } } }));
    let mut rpc = place.rpc();
    let root = rpc.open(&place);
    rpc.call("prompt", json!({ "session": root, "text": "Go", "key": "p" }));
    until("both sleep", || (sleepers(&mark(24)) == 1 && sleepers(&mark(25)) == 1).then_some(()));
    rpc.running.signal("-KILL");
    rpc.running.ended();
    for (text, key) in [("hi", "p1"), ("and?", "p2")] {
        let mut rpc = place.rpc();
        rpc.call("prompt", json!({ "session": root, "text": text, "key": key }));
        assert_eq!(rpc.rest(&root)["state"], "idle");
        let events = rpc.call("events", json!({ "session": root, "limit": 1000 }));
        let events = events["events"].as_array().unwrap();
        let results: Vec<&Value> = events.iter().filter(|event| event["kind"] == "tool_finished").collect();
        assert_eq!(results.len(), 2, "{results:?}");
        for result in results {
            assert!(result["body"]["text"].as_str().unwrap().starts_with("Interrupted: "), "{result}");
        }
        assert_eq!(rpc.end(), Some(0));
    }
    for n in [24, 25] {
        assert_eq!(processes_with(&mark(n)), [""; 0]);
    }
}

#[test]
fn a_damaged_store_is_said_to_be_and_no_new_one_takes_its_place() {
    let place = Place::new(json!({ "sessions": { "root": { "steps": [[{ "say": "x".repeat(200_000) }]] } } }));
    assert_eq!(place.run(["run", "Fill it"]).code, Some(0));
    let path = place.data().join("coppice.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 4096].fill(0xa5);
    std::fs::write(&path, &bytes).unwrap();
    let tree = place.run(["tree"]);
    assert_eq!((tree.code, tree.out.as_str()), (Some(1), ""));
    assert!(tree.err.contains("is damaged") && tree.err.contains(".recover"), "{}", tree.err);
    assert_eq!(tree.err.lines().count(), 1, "{}", tree.err);
    let refused = place.rpc().message();
    assert_eq!(refused["error"]["code"], "store", "{refused}");
    assert!(std::fs::read(&path).unwrap() == bytes, "it was left as it was");
    assert!(child(&refused, "none").is_none());
}
