//! The wire, on the real program.

use crate::support::{Place, child, mark, processes_with, sleepers, until};
use serde_json::{Value, json};

fn delegate(label: &str) -> Value {
    json!({ "call": { "tool": "subagent", "args": { "description": label, "prompt": "Do it.", "run_in_background": true } } })
}

/// A root that starts one child, which waits at a gate after its first step.
fn one_child() -> Value {
    json!({ "sessions": {
        "root": { "steps": [[delegate("look")], [{ "say": "It is at work." }], [{ "say": "It has ended." }]] },
        "look": { "steps": [
            [{ "say": "I begin." }, { "call": { "tool": "read_file", "args": { "path": "read.me" } } }],
            [{ "until_file": "gate" }, { "say": "I was let through." }],
            [{ "say": "I heard you." }],
        ] },
    } })
}

#[test]
fn what_does_not_fit_is_refused_by_name_and_the_wire_goes_on() {
    let place = Place::new(json!({ "sessions": {} }));
    let mut rpc = place.rpc();
    for (line, id, named) in [
        ("nonsense", Value::Null, "not JSON"),
        ("[]", Value::Null, "`id`"),
        (r#"{"cmd": "tree"}"#, Value::Null, "`id`"),
        (r#"{"id": "x"}"#, json!("x"), "`cmd`"),
    ] {
        rpc.write(line);
        let answer = rpc.message();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!("bad_request")), "{line}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(named), "{answer}");
    }
    for (cmd, args, named) in [
        ("nope", json!({}), "nope"),
        ("open", json!({ "cwd": 5, "key": "k" }), "`cwd`"),
        ("open", json!({ "cwd": "/" }), "`key`"),
        ("open", json!({ "cwd": "relative", "key": "k" }), "`cwd`"),
        ("open", json!({ "cwd": "/", "key": "" }), "`key`"),
        ("open", json!({ "cwd": "/", "key": "k", "extra": 1 }), "`extra`"),
        ("stop", json!({ "what": "branch", "key": "k" }), "`id`"),
        ("stop", json!({ "what": "all", "key": "k" }), "`what`"),
        ("wait", json!({}), "`task` and `session`"),
        ("tree", json!([1]), "arguments"),
    ] {
        let refused = rpc.refused(cmd, args);
        assert_eq!(refused["code"], "bad_request", "{refused}");
        assert!(refused["message"].as_str().unwrap().contains(named), "{refused}");
    }
    for (cmd, args, code) in [
        ("page", json!({ "session": "none" }), "unknown_session"),
        ("prompt", json!({ "session": "none", "text": "x", "key": "k1" }), "unknown_session"),
        ("output", json!({ "task": "bash-99" }), "unknown_task"),
        ("open", json!({ "cwd": "/nowhere/at/all", "key": "k2" }), "gone"),
        ("raise", json!({}), "conflict"),
    ] {
        assert_eq!(rpc.refused(cmd, args)["code"], code, "{cmd}");
    }
    assert_eq!(rpc.call("tree", json!({})), json!({ "sessions": [], "tasks": [] }));
    assert_eq!(rpc.end(), Some(0));
}

#[test]
fn every_command_of_the_table_is_there_and_in_the_help() {
    let place = Place::new(json!({ "sessions": {} }));
    let help = place.run(["rpc", "--help"]);
    assert_eq!(help.code, Some(0));
    let mut rpc = place.rpc();
    for row in coppice_host::commands::TABLE {
        assert!(help.out.contains(row.what), "{}", row.name);
        let refused = rpc.refused(row.name, json!({ "no such argument": 1 }));
        assert!(!refused["message"].as_str().unwrap().contains("no command"), "{refused}");
    }
}

#[test]
fn a_prompt_runs_to_the_end_of_all_it_started_and_its_owner_answers_the_notice() {
    let place = Place::new(one_child());
    place.open_gate("gate");
    let mut rpc = place.rpc();
    let root = rpc.open(&place);
    let n = rpc.call("prompt", json!({ "session": root, "text": "Go", "key": "p" }))["n"].clone();
    assert_eq!(rpc.call("prompt", json!({ "session": root, "text": "Go", "key": "p" }))["n"], n, "the same key");
    assert_eq!(rpc.open(&place), root, "the same key");
    let rested = rpc.rest(&root);
    assert_eq!((&rested["state"], &rested["live_below"]), (&json!("idle"), &json!(0)));
    let page = rpc.call("page", json!({ "session": root }));
    let kinds: Vec<&str> = page["rows"].as_array().unwrap().iter().map(|row| row["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message", "delegation", "answer", "notice", "answer"]);
    let tree = rpc.call("tree", json!({ "root": root }));
    assert_eq!(child(&tree, "look").unwrap()["state"], "completed");
    assert_eq!(tree["tasks"][0]["status"], "completed");
    assert_eq!(rpc.end(), Some(0));
}

#[test]
fn requests_overlap_and_frames_follow_the_answer_to_the_subscription() {
    let place = Place::new(one_child());
    let mut rpc = place.rpc();
    let root = rpc.open(&place);
    let subscribed = rpc.ask("subscribe", json!({ "session": root, "after": 0 }));
    assert_eq!(rpc.message(), json!({ "id": subscribed, "ok": { "seq": 0 } }));
    assert_eq!(rpc.frame()["sessions"][0]["id"], json!(root));
    rpc.call("prompt", json!({ "session": root, "text": "Go", "key": "p" }));
    let waiting = rpc.ask("wait", json!({ "session": root }));
    rpc.until("the child is at the gate", |tree| child(tree, "look").filter(|look| look["step"] == 2).map(|_| ()));
    place.open_gate("gate");
    assert_eq!(rpc.answer(waiting).unwrap()["live_below"], 0);
    let rows: Vec<Value> = std::iter::from_fn(|| Some(rpc.frame()["rows"].clone()))
        .take_while(|rows| !rows.to_string().contains("It has ended."))
        .collect();
    assert!(!rows.is_empty());
}

#[test]
fn a_message_joins_a_running_child_and_wakes_one_that_has_ended() {
    let place = Place::new(one_child());
    let mut rpc = place.rpc();
    let root = rpc.open(&place);
    rpc.call("prompt", json!({ "session": root, "text": "Go", "key": "p" }));
    let look = rpc.until("the child can be steered", |tree| {
        child(tree, "look").filter(|look| look["steerable"] == true && look["step"] == 2).map(|look| look["id"].clone())
    });
    let steered = rpc.call("send", json!({ "child": look, "text": "Hear me", "key": "s1" }));
    assert_eq!(steered["route"], "steered");
    assert_eq!(rpc.call("send", json!({ "child": look, "text": "Hear me", "key": "s1" })), steered, "the same key");
    place.open_gate("gate");
    rpc.rest(&root);
    let page = rpc.call("page", json!({ "session": look })).to_string();
    assert!(page.contains("I heard you."), "{page}");
    let started = rpc.call("send", json!({ "child": look, "text": "Again", "key": "s2" }));
    assert_eq!(started["route"], "started");
    assert_ne!(started["task"], steered["task"]);
    rpc.rest(&root);
}

fn sleeper(mark: &str) -> Value {
    json!({ "sessions": {
        "root": { "steps": [
            [{ "call": { "tool": "bash", "args": {
                "command": format!("setsid sleep {mark} & sleep {mark} & wait"), "run_in_background": true,
            } } }],
            [{ "say": "It sleeps." }],
        ] },
    } })
}

#[test]
fn a_receipt_names_what_its_preview_named_and_the_processes_are_gone() {
    let place = Place::new(sleeper(&mark(1)));
    let mut rpc = place.rpc();
    let root = rpc.open(&place);
    rpc.call("prompt", json!({ "session": root, "text": "Go", "key": "p" }));
    until("both sleep", || (sleepers(&mark(1)) == 2).then_some(()));
    rpc.until("the turn is over", |tree| (tree["sessions"][0]["state"] == "idle").then_some(()));
    let stop = |preview| json!({ "what": "branch", "id": root, "preview": preview, "key": format!("s{preview}") });
    let preview = rpc.call("stop", stop(true));
    assert!(!processes_with(&mark(1)).is_empty(), "a preview ends nothing");
    let receipt = rpc.call("stop", stop(false));
    assert_eq!(receipt["ended"], preview["ended"]);
    assert_eq!(receipt["unconfirmed"], json!([]));
    assert!(receipt["processes"].as_array().unwrap().iter().all(|process| process["gone"] == true), "{receipt}");
    assert_eq!(processes_with(&mark(1)), [""; 0]);
}

#[test]
fn the_end_of_input_ends_everything_that_runs() {
    let place = Place::new(sleeper(&mark(2)));
    let mut rpc = place.rpc();
    let root = rpc.open(&place);
    rpc.call("prompt", json!({ "session": root, "text": "Go", "key": "p" }));
    until("both sleep", || (sleepers(&mark(2)) == 2).then_some(()));
    assert_eq!(rpc.end(), Some(0));
    assert_eq!(processes_with(&mark(2)), [""; 0]);
    let tree = place.rpc().call("tree", json!({}));
    assert_eq!(tree["tasks"][0]["status"], "interrupted");
}

#[test]
fn a_signal_ends_everything_that_runs() {
    let place = Place::new(sleeper(&mark(3)));
    let mut rpc = place.rpc();
    let root = rpc.open(&place);
    rpc.call("prompt", json!({ "session": root, "text": "Go", "key": "p" }));
    until("both sleep", || (sleepers(&mark(3)) == 2).then_some(()));
    rpc.running.signal("-TERM");
    assert_eq!(rpc.running.ended(), Some(0));
    assert_eq!(processes_with(&mark(3)), [""; 0]);
}

#[test]
fn shutdown_answers_with_its_receipt_and_then_the_process_ends() {
    let place = Place::new(one_child());
    let mut rpc = place.rpc();
    let root = rpc.open(&place);
    rpc.call("prompt", json!({ "session": root, "text": "Go", "key": "p" }));
    rpc.until("the child is at the gate", |tree| child(tree, "look").filter(|look| look["step"] == 2).map(|_| ()));
    let receipt = rpc.call("shutdown", json!({}));
    assert_eq!(receipt["what"], "everything");
    assert!(receipt["ended"].to_string().contains("look"), "{receipt}");
    assert_eq!(rpc.running.ended(), Some(0));
}

#[test]
fn what_was_asked_before_the_end_of_input_is_answered() {
    let place = Place::new(json!({ "sessions": {} }));
    let mut rpc = place.rpc();
    let id = rpc.ask("open", json!({ "cwd": place.work(), "key": "k" }));
    let code = rpc.end();
    assert!(rpc.answer(id).is_ok());
    assert_eq!(code, Some(0));
}

#[test]
fn a_second_process_is_refused_and_told_who_holds_the_folder() {
    let place = Place::new(json!({ "sessions": {} }));
    let mut first = place.rpc();
    let pid = first.call("about", json!({}))["pid"].clone();
    let mut second = place.rpc();
    let refused = second.message();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!("held_elsewhere")));
    assert!(refused["error"]["message"].as_str().unwrap().contains(&pid.to_string()), "{refused}");
    assert_eq!(second.running.ended(), Some(1));
    assert_eq!(first.end(), Some(0));
}

#[test]
fn after_a_crash_everything_is_there_and_a_child_takes_a_message() {
    let place = Place::new(one_child());
    let mut rpc = place.rpc();
    let root = rpc.open(&place);
    rpc.call("prompt", json!({ "session": root, "text": "Go", "key": "p" }));
    let look = rpc.until("the child is at the gate", |tree| {
        child(tree, "look").filter(|look| look["step"] == 2).map(|look| look["id"].clone())
    });
    rpc.running.signal("-KILL");
    rpc.running.ended();
    place.open_gate("gate");
    let mut rpc = place.rpc();
    let tree = rpc.call("tree", json!({}));
    assert_eq!(child(&tree, "look").unwrap()["state"], "interrupted");
    assert_eq!(rpc.call("send", json!({ "child": look, "text": "Go on", "key": "s" }))["route"], "started");
    rpc.rest(&root);
    let tree = rpc.call("tree", json!({}));
    assert_eq!(child(&tree, "look").unwrap()["state"], "completed");
}

#[test]
fn what_is_deleted_with_its_work_has_its_receipt_is_unknown_to_all_and_stays_so_after_a_kill() {
    let place = Place::new(sleeper(&mark(4)));
    let mut rpc = place.rpc();
    let root = rpc.open(&place);
    rpc.call("prompt", json!({ "session": root, "text": "Go", "key": "p" }));
    until("both sleep", || (sleepers(&mark(4)) == 2).then_some(()));
    rpc.until("its turn is over", |tree| (tree["sessions"][0]["state"] == "idle").then_some(()));
    for cmd in ["archive", "delete"] {
        let refused = rpc.refused(cmd, json!({ "session": root, "key": cmd }));
        assert_eq!(refused["code"], "busy", "{refused}");
        assert!(refused["message"].as_str().unwrap().contains("1 runs in this branch"), "{refused}");
    }
    let preview = rpc.call("delete", json!({ "session": root, "preview": true, "key": "v" }));
    assert_eq!((&preview["sessions"], &preview["messages"]), (&json!(1), &json!(3)), "{preview}");
    let delete = json!({ "session": root, "stop": true, "key": "d" });
    let deleted = rpc.call("delete", delete.clone());
    assert_eq!((&deleted["ended"], &deleted["sessions"]), (&preview["ended"], &json!(1)), "{deleted}");
    assert_eq!(deleted["unconfirmed"], json!([]));
    assert_eq!(processes_with(&mark(4)), [""; 0]);
    assert_eq!(rpc.call("delete", delete), deleted);
    let gone = |rpc: &mut crate::support::Rpc| {
        for (cmd, args) in [
            ("prompt", json!({ "session": root, "text": "late", "key": "l1" })),
            ("send", json!({ "child": root, "text": "late", "key": "l2" })),
            ("wait", json!({ "session": root })),
            ("subscribe", json!({ "session": root })),
            ("page", json!({ "session": root })),
            ("archive", json!({ "session": root, "archived": false, "key": "l3" })),
            ("delete", json!({ "session": root, "key": "l4" })),
        ] {
            assert_eq!(rpc.refused(cmd, args)["code"], "unknown_session", "{cmd}");
        }
        assert_eq!(rpc.call("tree", json!({})), json!({ "sessions": [], "tasks": [] }));
    };
    gone(&mut rpc);
    rpc.running.signal("-KILL");
    rpc.running.ended();
    gone(&mut place.rpc());
}
