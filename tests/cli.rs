//! The terminal, on the real program.

use crate::support::{Place, Running, mark, processes_with, sleepers, until};
use serde_json::{Value, json};
use std::process::Stdio;

fn says(text: &str) -> Value {
    json!({ "sessions": { "root": { "steps": [[{ "say": text }]] } } })
}

fn sleeper(mark: &str) -> Value {
    json!({ "sessions": { "root": { "steps": [
        [{ "call": { "tool": "bash", "args": { "command": format!("setsid sleep {mark} & sleep {mark}") } } }],
        [{ "say": "It slept." }],
    ] } } })
}

fn events(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[test]
fn a_run_prints_the_tree_then_the_answer_and_waits_for_what_it_started() {
    let place = Place::new(json!({ "sessions": {
        "root": { "steps": [
            [{ "call": { "tool": "subagent", "args": { "description": "look", "prompt": "Do.", "run_in_background": true } } }],
            [{ "say": "It is at work." }],
            [{ "say": "It found a hello." }],
        ] },
        "look": { "steps": [[{ "call": { "tool": "read_file", "args": { "path": "read.me" } } }], [{ "say": "Done." }]] },
    } }));
    let ran = place.run(["run", "Look around", "--mode", "full"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("\n  ✓ look: completed"), "{}", ran.out);
    assert!(ran.out.trim_end().ends_with("\nIt found a hello."), "{}", ran.out);
}

#[test]
fn a_run_as_json_prints_every_committed_event_once() {
    let place = Place::new(says("Hello."));
    let ran = place.run(["run", "Greet", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let events = events(&ran.out);
    let session = events[0]["session"].as_str().unwrap();
    let numbers: Vec<i64> = events.iter().map(|event| event["n"].as_i64().unwrap()).collect();
    assert_eq!(numbers, (1..=i64::try_from(events.len()).unwrap()).collect::<Vec<_>>());
    assert_eq!(events.last().unwrap()["kind"], "turn_ended");
    let exported = place.run(["export", session]);
    assert_eq!(exported.out, ran.out);
    let again = place.run(["run", "Again", "--json", "--session", session]);
    assert_eq!(self::events(&again.out)[0]["n"], json!(events.len() + 1), "only what is new: {}", again.out);
}

#[test]
fn the_exit_code_says_how_the_turn_ended() {
    let place = Place::new(json!({ "sessions": { "root": { "steps": [
        [{ "fail": { "kind": "rejected", "message": "The server refused." } }],
    ] } } }));
    let failed = place.run(["run", "Fail"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.err.contains("The server refused."), "{}", failed.err);
    for args in [
        &["run"][..],
        &["nonsense"],
        &["run", "x", "--mode", "nope"],
        &["--log", "coppice=debug", "tree"],
        &["run", " "],
    ] {
        assert_eq!(place.run(args).code, Some(2), "{args:?}");
    }
    place.configure("[limits]\ndepht = 3\n");
    let unclear = place.run(["tree"]);
    assert_eq!(unclear.code, Some(2), "{unclear:?}");
    assert!(unclear.err.contains("depht"), "{}", unclear.err);
}

#[test]
fn what_cannot_run_opens_no_session() {
    let place = Place::new(says("Hello."));
    assert_eq!(place.run(["run", ""]).code, Some(2));
    let mut lost = place.shell("mkdir gone && cd gone && rmdir ../gone && exec \"$0\" run Greet");
    let ran: crate::support::Ran = lost.output().unwrap().into();
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("current folder"), "{}", ran.err);
    assert_eq!(place.run(["tree"]).out, "No sessions. `coppice run \"...\"` begins one.\n");
}

#[test]
fn a_childs_tree_is_its_branch() {
    let place = Place::new(json!({ "sessions": {
        "root": { "steps": [
            [{ "call": { "tool": "subagent", "args": { "description": "look", "prompt": "Do.", "run_in_background": false } } }],
            [{ "say": "Done." }],
        ] },
        "look": { "steps": [[{ "say": "Seen." }]] },
    } }));
    assert_eq!(place.run(["run", "Look around", "--mode", "full"]).code, Some(0));
    let tree: Value = serde_json::from_str(&place.run(["tree", "--json"]).out).unwrap();
    let look = crate::support::child(&tree, "look").unwrap()["id"].as_str().unwrap().to_owned();
    assert_eq!(place.run(["tree", &look]).out, format!("✓ look: completed  {look}\n"));
    let branch: Value = serde_json::from_str(&place.run(["tree", &look, "--json"]).out).unwrap();
    assert_eq!(branch["sessions"].as_array().map(Vec::len), Some(1), "{branch}");
    let unknown = place.run(["tree", "\u{1b}[2Jnone"]);
    assert_eq!((unknown.code, unknown.err.contains('\u{1b}')), (Some(1), false), "{unknown:?}");
}

#[test]
fn an_interrupt_stops_the_branch_with_a_receipt() {
    let place = Place::new(sleeper(&mark(11)));
    let mut run = Running::start(place.command(["run", "Sleep", "--mode", "full"]));
    until("both sleep", || (sleepers(&mark(11)) == 2).then_some(()));
    run.signal("-INT");
    let lines = run.lines_to(|line| line.contains("seen gone"));
    assert!(lines.iter().any(|line| line.starts_with("Stopped ")), "{lines:#?}");
    assert_eq!(run.ended(), Some(130));
    assert_eq!(processes_with(&mark(11)), [""; 0]);
}

#[test]
fn nothing_that_a_model_or_tool_says_commands_the_terminal() {
    let nasty = "\u{1b}]0;owned\u{7}\u{1b}[2Jvisible \u{9b}31mred\u{202e}";
    let place = Place::new(json!({ "sessions": {
        "root": { "steps": [
            [{ "call": { "tool": "subagent", "args": { "description": nasty, "prompt": nasty, "run_in_background": false } } }],
            [{ "say": nasty }],
        ] },
        "*": { "steps": [[{ "say": nasty }]] },
    } }));
    let outputs = [
        place.run(["run", nasty, "--mode", "full"]),
        place.run(["run", nasty, "--mode", "full", "--json"]),
        place.run(["tree"]),
        place.run(["tree", "--json"]),
    ];
    for ran in &outputs {
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.out.contains("visible"), "{}", ran.out);
        for obeyed in ['\u{1b}', '\u{9b}', '\u{7}', '\u{202e}'] {
            assert!(!ran.out.contains(obeyed) && !ran.err.contains(obeyed), "{obeyed:?} in {ran:?}");
        }
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let place = Place::new(says("Hello."));
    assert_eq!(place.run(["run", "Greet"]).code, Some(0));
    let mut child = place.command(["tree"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(141), ""));
}

#[test]
fn the_terminal_reaches_the_process_that_holds_the_folder() {
    let place = Place::new(sleeper(&mark(12)));
    let mut run = Running::start(place.command(["run", "Sleep", "--mode", "full"]));
    until("both sleep", || (sleepers(&mark(12)) == 2).then_some(()));
    let tree: Value = serde_json::from_str(&place.run(["tree", "--json"]).out).unwrap();
    let session = tree["sessions"][0]["id"].as_str().unwrap();
    let preview = place.run(["stop", "turn", session, "--preview"]);
    assert!(preview.out.starts_with("Would end 1 thing"), "{preview:?}");
    assert_eq!(place.run(["stop", "turn", session]).code, Some(0));
    assert_eq!(run.ended(), Some(130), "a run that was stopped from elsewhere says so too");
    assert_eq!(processes_with(&mark(12)), [""; 0]);
}

#[test]
#[cfg(target_os = "linux")]
fn what_a_session_started_may_not_drive_the_process_that_holds_the_folder() {
    let place = Place::new(says("Hello."));
    let mut rpc = place.rpc();
    rpc.call("about", json!({}));
    assert_eq!(place.run(["tree"]).code, Some(0));
    let work: crate::support::Ran = place.command(["tree"]).env("COPPICE_TASK", "x").output().unwrap().into();
    assert_eq!(work.code, Some(1), "{work:?}");
    assert!(work.err.contains("COPPICE_TASK"), "{}", work.err);
}

#[test]
fn a_process_that_hangs_is_named_within_seconds() {
    let place = Place::new(sleeper(&mark(13)));
    let run = Running::start(place.command(["run", "Sleep", "--mode", "full"]));
    until("both sleep", || (sleepers(&mark(13)) == 2).then_some(()));
    run.signal("-STOP");
    let begun = std::time::Instant::now();
    let ran = place.run(["tree"]);
    let took = begun.elapsed();
    run.signal("-CONT");
    run.signal("-INT");
    run.lines_to(|line| line.contains("seen gone"));
    assert!(took < std::time::Duration::from_secs(8), "{took:?}");
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains(&format!("Process {} ", run.child.id())), "{}", ran.err);
}

#[test]
fn without_a_display_the_window_names_the_terminal() {
    let place = Place::new(says("Hello."));
    let ran = place.run([""; 0]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("coppice run"), "{}", ran.err);
    assert!(!place.data().exists(), "nothing was begun");
}

#[test]
fn the_doctor_tells_what_works_and_no_secret() {
    let place = Place::new(says("Hello."));
    place.configure(
        "[models.far]\nprotocol = \"openai-chat\"\nmodel = \"m\"\nkey_env = \"SOME_KEY\"\n\
         base_url = \"http://user:hunter2@127.0.0.1:9/v1\"\n",
    );
    let ran: crate::support::Ran = place.command(["doctor"]).env("SOME_KEY", "hunter3").output().unwrap().into();
    assert!(ran.out.contains("rehearsal, the default: works"), "{}", ran.out);
    assert!(ran.out.contains("far at http://127.0.0.1:9/v1"), "{}", ran.out);
    assert!(!ran.out.contains("hunter") && !ran.err.contains("hunter"), "{ran:?}");
}

#[test]
fn a_run_that_is_done_waits_for_the_work_that_others_gave_its_process() {
    let place = Place::new(json!({ "sessions": { "root": { "steps": [
        [{ "until_file": "go" }, { "say": "First." }],
    ] } } }));
    let mut first = Running::start(place.command(["run", "one"]));
    first.lines_to(|line| line.contains("running") || line.contains("thinking"));
    let mut second = Running::start(place.command(["run", "two"]));
    second.lines_to(|line| line.contains("running") || line.contains("thinking"));
    place.open_gate("go");
    assert_eq!((first.ended(), second.ended()), (Some(0), Some(0)));
    let roots = place.run(["tree"]).out;
    assert_eq!((roots.contains("interrupted"), roots.lines().count()), (false, 2), "{roots}");
}
