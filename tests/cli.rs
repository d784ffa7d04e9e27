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
    let nowhere = place.run(["run", "Greet", "--cwd", "/nonexist"]);
    assert_eq!(nowhere.code, Some(2), "{nowhere:?}");
    assert!(nowhere.err.contains("/nonexist"), "{}", nowhere.err);
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
fn a_stop_of_nothing_says_so() {
    let place = Place::new(says("Hello."));
    assert_eq!(place.run(["stop", "everything"]).out, "Nothing ran.\n");
    assert_eq!(place.run(["stop", "everything", "--preview"]).out, "Nothing would end.\n");
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

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_a_failure_that_is_told() {
    let place = Place::new(says("Hello."));
    assert_eq!(place.run(["run", "Greet"]).code, Some(0));
    let request = "echo '{\"id\": 1, \"cmd\": \"tree\"}' | \"$0\" rpc > /dev/full";
    let lines = ["run Greet", "tree", "doctor", "stop everything", "--help", "--version", "rpc --help"];
    let lines = lines.map(|args| format!("\"$0\" {args} > /dev/full"));
    for line in lines.iter().map(String::as_str).chain([request]) {
        let ran: crate::support::Ran = place.shell(line).output().unwrap().into();
        let told = "The output could not be written: No space left on device (os error 28).\n";
        assert_eq!((ran.code, ran.err.as_str()), (Some(1), told), "{line}");
    }
}

#[test]
fn a_reader_of_the_wire_that_goes_away_ends_it_quietly() {
    let place = Place::new(says("Hello."));
    let mut command = place.command(["rpc"]);
    command.stdin(Stdio::piped());
    let mut running = Running::unread(command);
    let mut input = running.child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"{\"id\": 1, \"cmd\": \"tree\"}\n").unwrap();
    // Its input stays open: that nobody reads is enough.
    let code = running.ended();
    let complaints = std::io::read_to_string(running.child.stderr.take().unwrap()).unwrap();
    assert_eq!((code, complaints.as_str()), (Some(141), ""));
    drop(input);
}

#[test]
fn what_is_wrong_with_the_configuration_has_its_own_exit_code_and_its_own_row() {
    let place = Place::new(says("Hello."));
    let check = |args: &[&str], told: &str| {
        let ran = place.run(args);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains(told), "{ran:?}");
    };
    std::fs::write(place.config().with_file_name("script.json"), "{\"sessions\": {\n\"root\": 5}}").unwrap();
    check(&["run", "Greet"], "script.json, line 2, column 9: invalid type: integer `5`");
    check(&["--config", "/nowhere/config.toml", "tree"], "There is no configuration /nowhere/config.toml.");
    place.configure("[limits]\ndepht = 3\n");
    check(&["tree"], "line 7: unknown field `depht`");
    let ran = place.run(["doctor"]);
    let rows: Vec<&str> = ran.out.lines().skip(1).take(2).collect();
    let (config, data) = (place.config(), place.data());
    assert!(rows[0].starts_with(&format!("configuration  {}, line 7: unknown field", config.display())), "{ran:?}");
    assert_eq!((rows[1], ran.code), (&*format!("data folder    {} (not opened)", data.display()), Some(2)));
}

#[test]
fn usage_asks_for_nothing_that_the_environment_gives() {
    let place = Place::new(says("Hello."));
    let ran = place.run(["run", "--bogus\u{1b}[2J\u{9b}31m"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("Usage: coppice run [OPTIONS] <PROMPT>\n"), "{}", ran.err);
    assert!(!ran.err.contains(['\u{1b}', '\u{9b}']), "{:?}", ran.err);
    let help = place.run(["--help"]).out;
    assert!(help.contains("COPPICE_DATA") && help.contains("COPPICE_CONFIG"), "{help}");
    #[cfg(target_os = "linux")]
    assert!(help.contains("/coppice") && help.contains("/coppice/config.toml"), "{help}");
}

#[test]
fn the_tour_says_before_anything_else_that_no_model_is_at_work() {
    let place = Place::new(says("Hello."));
    let ran = place.run(["run", "Greet"]);
    let told = format!(
        "This is the rehearsal: a built-in player with real tools, no model. It needs no key and no network.\n\
         Models that do real work are named in {}.\n",
        place.config().display()
    );
    assert!(ran.out.starts_with(&told), "{}", ran.out);
}

#[test]
fn what_a_terminal_would_obey_reaches_it_neither_from_a_file_name_nor_over_the_wire() {
    let place = Place::new(json!({ "sessions": { "root": { "steps": [
        [{ "call": { "tool": "glob", "args": { "pattern": "*" } } }],
        [{ "say_result": { "of": -1 } }],
    ] } } }));
    std::fs::write(place.work().join("a\u{1b}[2J\u{9b}31m\u{202e}b"), "").unwrap();
    let ran = place.run(["run", "Look"]);
    assert!(ran.out.ends_with("\nab\nread.me\n"), "{ran:?}");
    let session = place.run(["tree"]).out.split_whitespace().last().unwrap().to_owned();
    let page = format!("{{\"id\": 1, \"cmd\": \"page\", \"args\": {{\"session\": \"{session}\"}}}}");
    let wire: crate::support::Ran = place.shell(&format!("echo '{page}' | \"$0\" rpc")).output().unwrap().into();
    for out in [&wire.out, &place.run(["show", &session]).out, &place.run(["export", &session]).out] {
        assert!(out.contains("read.me") && !out.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{out:?}");
    }
}

/// The tour on a folder: what its three children found.
fn tour(make: &str) -> String {
    let place = Place::new(json!({ "sessions": {} }));
    place.write_config("[models.rehearsal]\nprotocol = \"rehearsal\"\npace = 0\n");
    std::fs::remove_file(place.work().join("read.me")).unwrap();
    assert!(place.shell(make).output().unwrap().status.success());
    let ran = place.run(["run", "Show me"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    ran.out.split_once("I have added nothing.\n").unwrap().1.to_owned()
}

#[test]
#[cfg(target_os = "linux")]
fn the_tour_of_an_empty_folder_finds_nothing_and_says_so() {
    let report = tour("true");
    let found: Vec<&str> = report.lines().filter(|line| line.starts_with("    ")).collect();
    assert_eq!(found, ["    0 files, 0 bytes"], "{report}");
    assert!(report.contains("\n\nNot a git repository.\n\n"), "{report}");
    assert!(!report.contains("did not work") && !report.contains("fatal") && !report.contains("exit"), "{report}");
    assert!(!report.contains("exit 0") && !report.contains("no output") && !report.contains("subagent-"), "{report}");
}

#[test]
#[cfg(target_os = "linux")]
fn the_tour_names_no_build_output_that_git_ignores_and_reads_names_as_they_are() {
    let report = tour(
        "git init -q . && mkdir target 's p' && head -c 99999 /dev/zero > target/big.rs && echo target > .gitignore &&
         seq 3000 > 's p/\u{fc}n: total.txt' && : > '1 a' && ln -s target/big.rs link && ln -s nowhere gone",
    );
    assert!(report.contains("**Files in all** (1 line)\n\n    3 files, 13900 bytes\n"), "{report}");
    let facts = "\n3 files, 13.9 kB in all. The largest is `s p/\u{fc}n: total.txt` (13.8 kB). ";
    assert!(report.starts_with(facts), "{report}");
    let (_, last) = report.split_once("**Changed last** (3 lines)\n").unwrap();
    let last: Vec<&str> =
        last.lines().skip(1).take(3).filter_map(|line| line.split_once(" ./")).map(|it| it.1).collect();
    assert_eq!(std::collections::BTreeSet::from_iter(last), [".gitignore", "1 a", "s p/\u{fc}n: total.txt"].into());
    assert!(report.contains("**Files by kind** (2 lines)\n\n    2 (no suffix)\n    1 .txt\n"), "{report}");
    assert!(report.contains("**Files by folder** (2 lines)\n\n    2 (at the top)\n    1 s p/\n"), "{report}");
    assert!(
        report.contains("(3 lines)\n\n    13893 ./s p/\u{fc}n: total.txt\n        7 ./.gitignore\n        0 ./1 a\n"),
        "{report}"
    );
    assert!(report.contains("**`s p/\u{fc}n: total.txt`** (the first 6 of 3000 lines)\n\n    1\n    2\n"), "{report}");
    assert!(!report.contains("99999"), "{report}");
}

#[test]
#[cfg(target_os = "linux")]
fn the_tour_of_many_kinds_says_how_many_it_leaves_out() {
    let report = tour("for kind in 1 2 3 4 5 6 7 8 9; do mkdir d$kind && : > d$kind/a.$kind; done; : > Makefile");
    assert!(report.contains("**Files by kind** (the first 6 of 10 lines)"), "{report}");
    assert!(report.contains("**Files by folder** (the first 6 of 10 lines)"), "{report}");
    assert!(report.contains("**The largest, in bytes** (the first 6 of 10 lines)"), "{report}");
    assert!(report.contains("**Changed last** (the first 6 of 10 lines)"), "{report}");
}

#[test]
fn the_tour_of_a_session_that_may_only_look_is_refused_nothing() {
    let place = Place::new(json!({ "sessions": {} }));
    place.write_config("[models.rehearsal]\nprotocol = \"rehearsal\"\npace = 0\n");
    let ran = place.run(["run", "Show me", "--mode", "read-only"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(!ran.out.contains("did not work") && !ran.out.contains("Nothing was started"), "{}", ran.out);
    assert_eq!(ran.out.matches("No commands are run here").count(), 1, "{}", ran.out);
}

#[test]
fn a_message_to_a_child_waits_for_what_its_owner_makes_of_it() {
    let place = Place::new(json!({ "sessions": {
        "root": { "steps": [
            [{ "call": { "tool": "subagent", "args": { "description": "look", "prompt": "Do.", "run_in_background": true } } }],
            [{ "say": "It is at work." }],
            [{ "say": "It has ended." }],
            [{ "wait_ms": 500 }, { "say": "It has ended again." }],
        ] },
        "look": { "steps": [[{ "say": "Seen." }], [{ "say": "Seen once more." }]] },
    } }));
    assert_eq!(place.run(["run", "Look around", "--mode", "full"]).code, Some(0));
    let tree: Value = serde_json::from_str(&place.run(["tree", "--json"]).out).unwrap();
    let look = crate::support::child(&tree, "look").unwrap()["id"].as_str().unwrap().to_owned();
    let sent = place.run(["send", &look, "Look again"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert!(sent.out.trim_end().ends_with("\nSeen once more."), "{}", sent.out);
    let tree = place.run(["tree"]).out;
    assert!(!tree.contains("interrupted"), "{tree}");
    let root = tree.lines().next().unwrap().split_whitespace().last().unwrap().to_owned();
    let shown = place.run(["show", &root]).out;
    assert!(shown.contains("It has ended again.\n"), "{shown}");
}

#[test]
fn a_message_that_a_running_turn_takes_is_only_told_as_accepted() {
    let place = Place::new(json!({ "sessions": {
        "root": { "steps": [
            [{ "call": { "tool": "subagent", "args": { "description": "look", "prompt": "Do.", "run_in_background": true } } }],
            [{ "say": "It is at work." }],
        ] },
        "look": { "steps": [[{ "until_file": "go" }, { "say": "Seen." }]] },
    } }));
    let mut run = Running::start(place.command(["run", "Look around", "--mode", "full"]));
    let look = until("the child runs", || {
        let tree: Value = serde_json::from_str(&place.run(["tree", "--json"]).out).ok()?;
        let look = crate::support::child(&tree, "look")?;
        (look["state"] == "running").then(|| look["id"].as_str().unwrap().to_owned())
    });
    let sent = place.run(["send", &look, "Look again"]);
    place.open_gate("go");
    assert_eq!((sent.code, sent.out.as_str()), (Some(0), "Accepted: it joins the running turn at its next step.\n"));
    assert_eq!(run.ended(), Some(0));
}

#[test]
fn the_script_in_the_readme_does_what_the_readme_says() {
    let place = Place::new(json!({ "sessions": {} }));
    place.write_config("");
    std::fs::write(place.work().join("two"), "").unwrap();
    let readme = std::fs::read_to_string(crate::support::project().join("README.md")).unwrap();
    let prompt = readme.split("\n````\n").nth(1).unwrap();
    let ran = place.run(["run", prompt]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(ran.out.contains("  \u{2713} count: completed"), "{}", ran.out);
    let (_, answer) = ran.out.split_once("\n\n").unwrap();
    let (before, after) = answer.split_once("[exit 0 in ").unwrap();
    let told = (before, after.split_once(" s]").unwrap().1);
    assert_eq!(told, ("It counted:\n2\n", "\n[subagent-1: completed]\n"));
}

#[test]
fn a_tree_ends_at_its_limit_with_the_reason_and_goes_on_when_it_is_raised() {
    let step =
        json!([{ "call": { "tool": "glob", "args": { "pattern": "*" } } }, { "usage": { "input": 90, "output": 10 } }]);
    let place = Place::new(json!({ "sessions": { "root": { "steps": [step, [{ "say": "Found it." }]] } } }));
    let ran = place.run(["run", "Look", "--limit", "tokens=100"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("its budget is used up: 100 of 100 tokens"), "{ran:?}");
    let tree: Value = serde_json::from_str(&place.run(["tree", "--json"]).out).unwrap();
    let root = tree["sessions"][0]["id"].as_str().unwrap();
    let told = place.run(["limits", root]);
    assert!(told.out.contains("tokens                100 of 100 tokens"), "{told:?}");
    let ran = place.run(["run", "Go on", "--session", root, "--limit", "tokens=0"]);
    assert!(ran.code == Some(0) && ran.out.contains("Found it."), "{ran:?}");
    for (args, said) in
        [(&["run", "Look", "--limit", "token=5"][..], "there are depth"), (&["limits", "tokens=5"][..], "no session")]
    {
        let ran = place.run(args);
        assert!(ran.code != Some(0) && ran.err.to_lowercase().contains(said), "{ran:?}");
    }
}

#[test]
fn a_session_is_renamed_archived_brought_back_and_deleted_by_name() {
    let place = Place::new(says("Hello."));
    assert_eq!(place.run(["run", "Greet"]).code, Some(0));
    let tree: Value = serde_json::from_str(&place.run(["tree", "--json"]).out).unwrap();
    let id = tree["sessions"][0]["id"].as_str().unwrap().to_owned();
    let did = |args: &[&str], said: &str| {
        let ran = place.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), said), "{args:?}: {ran:?}");
    };
    did(&["rename", &id, "A greeting"], "Renamed.\n");
    did(&["archive", &id], "Archived. `coppice archive --undo` brings it back.\n");
    did(&["tree"], "1 archived. `coppice tree --archived` shows them too.\n");
    did(&["tree", "--archived"], &format!("○ A greeting: idle  {id}\n"));
    did(&["tree", &id], &format!("○ A greeting: idle  {id}\n"));
    assert!(place.run(["show", &id]).out.contains("Hello."));
    did(&["archive", &id, "--undo"], "Brought back.\n");
    did(&["tree"], &format!("○ A greeting: idle  {id}\n"));
    did(&["delete", &id, "--preview"], "Would delete 1 session with 2 messages.\n");
    did(&["delete", &id], "Deleted 1 session with 2 messages.\n");
    did(&["tree"], "No sessions. `coppice run \"...\"` begins one.\n");
    for args in [&["delete", &id][..], &["archive", &id], &["rename", &id, "x"], &["show", &id], &["send", &id, "x"]] {
        let ran = place.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{args:?}: {ran:?}");
    }
    assert_eq!(place.run(["delete"]).code, Some(2));
}

#[test]
fn what_a_session_did_to_files_is_taken_back_and_put_back_by_the_terminal() {
    let place = Place::new(json!({ "sessions": { "root": { "steps": [
        [{ "call": { "tool": "write_file", "args": { "path": "made.txt", "content": "one\n" } } }],
        [{ "say": "Made." }],
    ] } } }));
    let ran = place.run(["run", "Make it", "--mode", "full", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let id = events(&ran.out)[0]["session"].as_str().unwrap().to_owned();
    let made = place.work().join("made.txt");
    let preview = place.run(["undo", &id, "--preview"]);
    let would = "Would do this:\n  made.txt: removed, it was not there before\n    @@ -1 +0,0 @@\n    -one\n";
    assert_eq!((preview.code, preview.out.as_str()), (Some(0), would), "{preview:?}");
    assert!(made.exists());
    let undone = place.run(["undo", &id]);
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert!(!made.exists());
    let (_, again) = undone.out.split_once("`coppice undo ").unwrap();
    let again: Vec<&str> = again.split('`').next().unwrap().split(' ').collect();
    let back = place.run([&["undo"], &again[..]].concat());
    assert_eq!((back.code, std::fs::read_to_string(&made).unwrap().as_str()), (Some(0), "one\n"), "{back:?}");
    std::fs::write(&made, "mine\n").unwrap();
    let refused = place.run(["undo", &id]);
    assert_eq!((refused.code, std::fs::read_to_string(&made).unwrap().as_str()), (Some(1), "mine\n"), "{refused:?}");
    assert!(refused.err.contains("made.txt is left alone"), "{refused:?}");
}
