//! Asks, on the real program: refused where nobody can be asked, answered at the terminal and over the wire.

use crate::support::{Place, Rpc, Running, until};
use serde_json::{Value, json};

fn bash(command: &str) -> Value {
    json!({ "call": { "tool": "bash", "args": { "command": command, "description": "makes it" } } })
}

/// A root that makes a file and repeats what it was told of that.
fn makes(name: &str) -> Value {
    json!({ "sessions": { "root": { "steps": [
        [bash(&format!("echo x > {name}"))], [{ "say_result": { "of": "bash" } }], [{ "say": "I go on." }],
    ] } } })
}

fn there(place: &Place, name: &str) -> bool {
    place.work().join(name).exists()
}

fn open(rpc: &mut Rpc, place: &Place) -> String {
    let args = json!({ "cwd": place.work(), "mode": "ask", "key": "open in ask" });
    rpc.call("open", args)["session"].as_str().unwrap().to_owned()
}

/// Waits for the first ask.
#[track_caller]
fn asked(rpc: &mut Rpc) -> Value {
    until("an ask", || rpc.call("asks", json!({}))["asks"].as_array_mut().unwrap().pop())
}

#[test]
fn without_a_terminal_a_call_that_needs_leave_is_refused_with_the_reason_and_the_way_to_allow_it() {
    let place = Place::new(makes("made"));
    let ran = place.run(["run", "Make it"]);
    assert_eq!((ran.code, there(&place, "made")), (Some(0), false), "{ran:?}");
    assert!(ran.out.contains("Not allowed: ") && ran.out.contains("--mode full or accept-edits"), "{}", ran.out);
    let told = "1 call was refused, because nobody could be asked: ";
    assert!(ran.err.starts_with(told) && ran.err.contains("--mode full"), "{}", ran.err);
    assert_eq!(place.run(["asks"]).out, "Nothing needs you.\n");
    let allowed = place.run(["run", "Make it", "--mode", "full"]);
    assert_eq!((allowed.code, allowed.err.as_str(), there(&place, "made")), (Some(0), "", true), "{allowed:?}");
}

#[test]
fn a_run_that_goes_on_in_another_process_waits_for_the_answer_there_and_says_so_once() {
    let place = Place::new(makes("made"));
    let mut rpc = place.rpc();
    rpc.call("about", json!({}));
    let mut command = place.command(["run", "Make it"]);
    let mut run = Running::start({
        command.stderr(std::process::Stdio::piped());
        command
    });
    let ask = asked(&mut rpc);
    assert_eq!(ask["action"], json!({ "kind": "command", "text": "echo x > made", "background": false }));
    assert!(!there(&place, "made"));
    let told = place.run(["answer", ask["id"].as_str().unwrap(), "once"]);
    assert_eq!((told.code, told.out.as_str()), (Some(0), "allowed once: Run echo x > made\n"), "{told:?}");
    assert_eq!((run.ended(), there(&place, "made")), (Some(0), true));
    assert_eq!(rpc.end(), Some(0));
}

#[test]
fn an_ask_outlives_a_crash_and_its_answer_wakes_who_asked() {
    let place = Place::new(makes("made"));
    let mut rpc = place.rpc();
    let root = open(&mut rpc, &place);
    rpc.call("prompt", json!({ "session": root, "text": "Make it", "key": "p" }));
    let ask = asked(&mut rpc);
    assert_eq!((&ask["waits"], &ask["state"]), (&json!(true), &json!("open")));
    rpc.running.signal("-KILL");
    rpc.running.ended();
    place.play(json!({ "sessions": { "root": { "steps": [
        [bash("echo x > made")], [bash("echo x > made")], [{ "say": "It is made." }],
    ] } } }));
    let mut rpc = place.rpc();
    let left = asked(&mut rpc);
    assert_eq!((&left["id"], &left["waits"], there(&place, "made")), (&ask["id"], &json!(false), false));
    assert_eq!(rpc.call("tree", json!({}))["sessions"][0]["needs_you"], 1);
    let args = json!({ "ask": ask["id"], "decision": "once", "key": "answer" });
    let answered = rpc.call("answer", args.clone())["ask"].clone();
    assert_eq!(answered["state"], "once");
    assert_eq!(rpc.call("answer", args)["ask"]["id"], ask["id"], "the same key answers once");
    let again = json!({ "ask": ask["id"], "decision": "deny", "key": "another" });
    assert_eq!(rpc.refused("answer", again)["code"], "conflict");
    until("it is made", || there(&place, "made").then_some(()));
    rpc.rest(&root);
    assert_eq!(rpc.call("asks", json!({})), json!({ "asks": [] }));
    assert_eq!(rpc.end(), Some(0));
}

#[test]
fn what_was_allowed_for_good_is_told_and_can_be_taken_back_and_a_mode_can_be_set() {
    let place = Place::new(makes("made"));
    let mut rpc = place.rpc();
    let root = open(&mut rpc, &place);
    rpc.call("prompt", json!({ "session": root, "text": "Make\u{1b}[2J it", "key": "p" }));
    let ask = asked(&mut rpc)["id"].as_str().unwrap().to_owned();
    let asks = place.run(["asks"]).out;
    assert!(asks.starts_with(&format!("\u{25c6} {ask}  ")) && asks.contains("Run echo x > made\n"), "{asks:?}");
    assert!(asks.contains("It says: \"makes it\"") && !asks.contains('\u{1b}'), "{asks:?}");
    assert_eq!(place.run(["answer", &ask, "always", "--note", "fine"]).code, Some(0));
    rpc.rest(&root);
    let allowed = place.run(["allowed"]).out;
    assert!(allowed.contains("Run echo x > made\n") && allowed.contains("for every session"), "{allowed:?}");
    assert_eq!(place.run(["allowed", "--remove", &ask]).code, Some(0));
    assert_eq!(place.run(["allowed"]).out, "Nothing is allowed for more than one call.\n");
    assert_eq!(place.run(["allowed", "--remove", &ask]).code, Some(2));
    assert!(place.run(["mode", &root]).out.ends_with(": ask\n"));
    assert!(place.run(["mode", &root, "read-only"]).out.ends_with(": read-only\n"));
    let lately: Value = serde_json::from_str(&place.run(["asks", "--all", "--json"]).out).unwrap();
    assert_eq!((&lately["asks"][0]["id"], &lately["asks"][0]["state"]), (&json!(ask), &json!("always")));
    assert_eq!(rpc.end(), Some(0));
}

#[test]
fn an_answer_from_the_terminal_after_a_crash_is_followed_to_the_end_of_what_it_woke() {
    let place = Place::new(makes("made"));
    let mut rpc = place.rpc();
    let root = open(&mut rpc, &place);
    rpc.call("prompt", json!({ "session": root, "text": "Make it", "key": "p" }));
    let ask = asked(&mut rpc)["id"].as_str().unwrap().to_owned();
    rpc.running.signal("-KILL");
    rpc.running.ended();
    let told = place.run(["answer", &ask, "deny", "--note", "not there"]);
    assert_eq!((told.code, there(&place, "made")), (Some(0), false), "{told:?}");
    assert!(told.err.starts_with("denied: Run echo x > made\n"), "{told:?}");
    assert!(told.out.contains("Make it: idle"), "{told:?}");
    let log = place.run(["export", &root]).out;
    assert!(log.contains("The person said: not there"), "{log}");
    assert_eq!(place.run(["asks"]).out, "Nothing needs you.\n");
}

#[cfg(target_os = "linux")]
mod terminal {
    use super::*;
    use crate::support::pty::Terminal;

    #[test]
    fn an_ask_is_put_to_the_person_and_a_letter_answers_it() {
        let place = Place::new(makes("made"));
        let mut terminal = Terminal::start(&place, &["run", "Make it"]);
        terminal.shows("  > ", 1);
        let screen = terminal.screen();
        for shown in [
            "Make it wants to run this command:",
            "  │ echo x > made",
            "It says: \"makes it\"",
            "needs you",
            "Then Enter.",
        ] {
            assert!(screen.contains(shown), "{shown:?} is missing: {screen}");
        }
        assert!(!there(&place, "made"));
        terminal.types("yes\r");
        terminal.shows("That is no answer; it still waits.", 1);
        assert!(!there(&place, "made"));
        terminal.types("a\r");
        assert_eq!(terminal.ended(), Some(0));
        assert!(there(&place, "made"));
        terminal.shows("allowed once: Run echo x > made", 1);
    }

    #[test]
    fn a_denial_takes_a_word_to_the_agent() {
        let place = Place::new(makes("made"));
        let mut terminal = Terminal::start(&place, &["run", "Make it"]);
        terminal.shows("  > ", 1);
        terminal.types("d use another\r");
        assert_eq!((terminal.ended(), there(&place, "made")), (Some(0), false));
        terminal.shows("The person said: use another", 1);
    }

    #[test]
    fn asks_queue_and_one_that_is_put_off_comes_again_when_it_is_wanted() {
        let child = |name: &str| json!({ "steps": [[bash(&format!("echo x > {name}"))], [{ "say": "Done." }]] });
        let delegate = |label: &str| json!({ "call": { "tool": "subagent", "args": { "description": label, "prompt": "Do it.", "run_in_background": true } } });
        let place = Place::new(json!({ "sessions": {
            "root": { "steps": [[delegate("north"), delegate("south")], [{ "say": "Two are at work." }], [{ "say": "One has ended." }], [{ "say": "Both have." }]] },
            "north": child("north"), "south": child("south"),
        } }));
        let mut terminal = Terminal::start(&place, &["run", "Make them"]);
        terminal.shows("(1 of 2) Make them › ", 1);
        terminal.types("n\r");
        terminal.shows("not now: Run echo x > ", 1);
        terminal.types("a\r");
        terminal.shows("1 ask is put off. Enter shows it again.", 1);
        until("one is made", || (there(&place, "north") != there(&place, "south")).then_some(()));
        terminal.types("\r");
        until("it is shown again", || {
            terminal.screen().split("is put off").last().unwrap().contains("Then Enter.").then_some(())
        });
        terminal.types("a\r");
        assert_eq!(terminal.ended(), Some(0));
        assert!(there(&place, "north") && there(&place, "south"));
    }

    #[test]
    fn an_interrupt_stops_what_asks_and_takes_the_ask_back() {
        let place = Place::new(makes("made"));
        let mut terminal = Terminal::start(&place, &["run", "Make it"]);
        terminal.shows("  > ", 1);
        terminal.types("\u{3}");
        assert_eq!((terminal.ended(), there(&place, "made")), (Some(130), false));
        let all: Value = serde_json::from_str(&place.run(["asks", "--all", "--json"]).out).unwrap();
        assert_eq!(all["asks"][0]["state"], "withdrawn");
    }

    #[test]
    fn a_run_as_json_asks_beside_its_events() {
        let place = Place::new(makes("made"));
        let mut terminal = Terminal::start(&place, &["run", "Make it", "--json"]);
        terminal.shows("  > ", 1);
        terminal.types("a\r");
        assert_eq!((terminal.ended(), there(&place, "made")), (Some(0), true));
        terminal.shows("\"kind\":\"turn_ended\"", 1);
    }
}

/// A command that asks the process that holds the folder for its asks, without the variable that marks it as work, and
/// prints the answer.
#[cfg(target_os = "linux")]
const CALLER: &str = r#"env -u COPPICE_TASK perl -MIO::Socket::UNIX -e '
    if ($ARGV[0] eq "orphan") {
        my $parent = $$;
        exit if fork;
        select undef, undef, undef, 0.01 while getppid == $parent;
    }
    my $socket = IO::Socket::UNIX->new(Peer => "$ENV{COPPICE_DATA}/coppice.sock") or die "no way: $!";
    print $socket "{\"id\":1,\"cmd\":\"asks\",\"args\":{}}\n";
    my $answer = <$socket>;
    open my $file, ">", "answer.new";
    print $file $answer;
    close $file;
    rename "answer.new", "answer";
' "#;

#[test]
#[cfg(target_os = "linux")]
fn a_command_that_drops_its_marker_may_not_drive_coppice_either_nor_when_it_has_lost_its_parent() {
    for how in ["child", "orphan"] {
        let command = format!("{CALLER}{how}; until [ -e answer ]; do sleep 0.05; done; cat answer");
        let place = Place::new(json!({ "sessions": { "root": { "steps": [
            [bash(&command)], [{ "say_result": { "of": "bash" } }],
        ] } } }));
        let ran = place.run(["run", "Answer yourself", "--mode", "full"]);
        assert_eq!(ran.code, Some(0), "{how}: {ran:?}");
        assert!(ran.out.contains("was started by a session of Coppice"), "{how}: {ran:?}");
    }
}
