//! The `bash` tool: what the model reads of a command, and what becomes of its processes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::process::{Book, alive, marked, processes, store, until};
use coppice_engine::config::bounds::MAX_RESULT;
use coppice_engine::env::Env;
use coppice_engine::error::Result;
use coppice_engine::id::{AgentId, Owner, TaskId};
use coppice_engine::process::{Exit, Plan, Processes};
use coppice_engine::prompt::Given;
use coppice_engine::tool::bash::terminal::Terminal;
use coppice_engine::tool::bash::{Bash, StartBackground, start_background};
use coppice_engine::tool::{Call, Leave, LiveOutput, Outcome, Tool};
use futures::FutureExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const GRACE: Duration = Duration::from_millis(300);
const IDLE: Duration = Duration::from_millis(600);

#[derive(Default)]
struct Watcher(Mutex<String>);

impl LiveOutput for Watcher {
    fn write(&self, text: &str) {
        self.0.lock().unwrap().push_str(text);
    }
}

impl Watcher {
    fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

pub struct Bench {
    name: String,
    pub bash: Bash,
    processes: Processes,
    book: Arc<Book>,
    watcher: Arc<Watcher>,
    cancel: CancellationToken,
}

pub fn bench(name: &str) -> Bench {
    let (processes, book) = processes(name);
    let bash = Bash::new(processes.clone(), None, GRACE, IDLE);
    Bench { name: store(name), bash, processes, book, watcher: Arc::default(), cancel: CancellationToken::new() }
}

fn given() -> Given {
    Given::new(["bash", "task_output"].map(str::to_owned))
}

impl Bench {
    pub fn call(&self) -> Call {
        Call {
            id: "1.1".into(),
            owner: Owner { session: "s".into(), agent: AgentId(1) },
            cwd: "/tmp".into(),
            leave: Leave::default(),
            judged: None,
            cancel: self.cancel.clone(),
            numbered: CancellationToken::new(),
            given: given(),
            live: self.watcher.clone(),
            env: Env::system(),
        }
    }

    async fn run(&self, args: Value) -> Outcome {
        let outcome = tokio::time::timeout(Duration::from_secs(60), self.bash.run(&self.call(), args)).await.unwrap();
        assert!(outcome.text.len() <= MAX_RESULT, "{} bytes", outcome.text.len());
        outcome
    }

    async fn command(&self, command: &str) -> Outcome {
        self.run(json!({ "command": command })).await
    }
}

/// The text without the times in it.
fn timeless(outcome: &Outcome) -> String {
    let mut text = String::new();
    for word in outcome.text.split_inclusive([' ', '\n', ',', ']', ';']) {
        match word.trim_end_matches([' ', '\n', ',', ']', ';']).parse::<f64>() {
            Ok(_) if word.contains('.') => {
                text.push_str(&word.replace(|c: char| c.is_ascii_digit() || c == '.', "").replacen("", "T", 1))
            }
            _ => text.push_str(word),
        }
    }
    text
}

async fn check(command: &str, ok: bool, text: &str) {
    let bench = bench("check");
    let outcome = bench.command(command).await;
    assert_eq!((timeless(&outcome).as_str(), outcome.ok), (text, ok), "{command}");
}

#[tokio::test]
async fn the_answer_is_the_output_and_how_the_command_ended() {
    check("echo hi", true, "hi\n[exit 0 in T s]").await;
    check("printf hi; printf ' there' >&2; exit 3", false, "hi there\n[exit 3 in T s]").await;
    check("true", true, "(no output)\n[exit 0 in T s]").await;
    check("pwd; read x || echo no input", true, "/tmp\nno input\n[exit 0 in T s]").await;
    check("kill -9 $$", false, "(no output)\n[exit 137 (128 + signal 9) in T s]").await;
    check(
        "no-such-command-at-all",
        false,
        "/bin/bash: line 1: no-such-command-at-all: command not found\n[exit 127 in T s]",
    )
    .await;
}

#[tokio::test]
async fn a_command_whose_guard_was_killed_says_what_happened() {
    check(
        "echo up; kill -9 $PPID; while :; do :; done",
        false,
        "up\n[its guard was ended by signal 9 after T s, as `kill -9 $PPID` does: the rest of the command was ended with \
         it, its exit code is not known, and processes that had left it may live on]",
    )
    .await;
}

#[tokio::test]
async fn the_detail_tells_the_window_the_facts() {
    let bench = bench("detail");
    let mut outcome = bench.command("printf '\\033[1mok\\033[0m'; exit 2").await;
    assert!(outcome.detail["ms"].is_u64());
    outcome.detail["ms"] = json!(0);
    let expected = json!({ "command": "printf '\\033[1mok\\033[0m'; exit 2", "exit": 2, "signal": null, "ms": 0, "bytes": 10, "processes_left": [] });
    assert_eq!((outcome.detail, bench.watcher.text().as_str()), (expected, "ok"));
}

#[tokio::test]
async fn a_terminals_tricks_do_not_reach_the_model() {
    for (command, shown) in [
        ("for i in $(seq 20000); do printf '\\r%d%%' $i; done", "20000%"),
        ("for i in $(seq 20000); do printf '\\r%d%%' $i; done; echo", "20000%"),
        ("printf 'one\\r\\ntwo\\r\\n'", "one\ntwo"),
        ("printf 'a\\033[31mred\\033[0m\\033[Kb'", "aredb"),
        ("printf 'fetch 1%%\\r\\033[Kfetch 2%%\\r\\033[Kdone\\n'", "done"),
        ("printf 'x\\033]52;c;c2VjcmV0\\007y\\033]0;title\\033\\\\z'", "xyz"),
        ("printf '\\033]8;;http://example.com\\033\\\\link\\033]8;;\\033\\\\'", "link"),
        ("printf '\\033]0;never ended\\nnext'", "\nnext"),
        ("printf 'spin |\\b/\\b-'", "spin -"),
        ("printf 'a\\033(Bb\\000c\\007d'", "abcd"),
        ("printf '\\302\\2331mbold'", "bold"),
    ] {
        let bench = bench("terminal");
        let outcome = bench.command(command).await;
        assert_eq!(timeless(&outcome), format!("{shown}\n[exit 0 in T s]"), "{command}");
        let live = bench.watcher.text();
        assert!(!live.contains('\u{1b}') && !live.contains("secret") && live.len() < 2000, "{command}: {live:?}");
    }
}

#[tokio::test]
async fn long_output_keeps_its_beginning_and_its_end_and_says_how_to_read_the_rest() {
    let bench = bench("long");
    let outcome = bench.command("seq 100000").await;
    assert!(outcome.text.starts_with("1\n2\n3\n") && outcome.text.contains("\n99999\n100000\n[exit 0 in "));
    let notice = outcome.text.lines().find(|line| line.starts_with('…')).unwrap();
    let left_out: usize = notice.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(notice.contains("bytes left out") && notice.contains("> FILE"), "{notice}");
    let around = outcome.text.find(notice).unwrap() + outcome.text.len() - outcome.text.rfind("[exit").unwrap() + 2;
    let body: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
    let kept = outcome.text.rfind("[exit").unwrap() - notice.len() - 2;
    assert_eq!((kept + left_out, around > 0), (body.len(), true));
    assert_eq!(outcome.detail["bytes"], json!(body.len()));
}

#[tokio::test]
async fn cuts_fall_on_characters_wherever_they_come() {
    let bench = bench("cuts");
    for before in [0, 1, 2, 12 * 1024 - 1, 16 * 1024 - 2, 32 * 1024 - 1] {
        let outcome =
            bench.command(&format!("head -c {before} /dev/zero | tr '\\0' a; printf '語%.0s' $(seq 30000)")).await;
        assert!(outcome.ok && !outcome.text.contains('\u{fffd}') && outcome.text.contains("left out"), "{before}");
    }
    let outcome = bench.command("head -c 50000 /dev/urandom").await;
    assert_eq!(outcome.detail["bytes"], json!(50_000));
    let bench = self::bench("cuts");
    let outcome = bench.command("head -c 5000000 /dev/zero | tr '\\0' x").await;
    assert_eq!(
        (outcome.detail["bytes"].clone(), outcome.text.contains(" bytes of this line left out ")),
        (json!(5_000_000), true)
    );
    assert!(bench.watcher.text().len() < 100_000, "what the window is shown of one line is bounded");
}

#[tokio::test]
async fn of_a_flood_the_person_who_watches_is_shown_little_and_the_end() {
    for command in
        ["yes '' | head -c 5000000; echo last", "seq 300000; echo last", "yes $'\\r' | head -c 300000; echo last"]
    {
        let bench = bench("flood");
        let begun = Instant::now();
        let outcome = bench.command(command).await;
        let shows = begun.elapsed().as_millis() / 50 + 3;
        assert!(outcome.text.contains("\nlast\n[exit 0 in "), "{command}");
        let live = bench.watcher.text();
        assert!(live.ends_with("\nlast\n"), "{command}");
        assert!((live.len() as u128) <= shows * 9 * 1024, "{command}: {} bytes in {shows} shows", live.len());
    }
}

#[test]
fn what_a_terminal_shows_is_the_same_however_the_output_is_cut() {
    let long = "語x".repeat(20_000);
    let text = format!(
        "one\n\n\n{long}\nab\u{9b}1mcd\u{85}é\u{a0}ü\tx\r\ntwo\rTWO!\n\u{1b}[31mred\u{1b}[0m\n{long}{long}\r{long}\nback\u{8}\u{8}\nend",
    );
    let shown = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut terminal = Terminal::default();
        let mut lines: String = pieces.map(|piece| terminal.feed(piece)).collect();
        lines.push_str(&terminal.finish());
        lines
    };
    let whole = shown(&mut std::iter::once(text.as_bytes()));
    assert!(
        whole.starts_with("one\n\n\n語x")
            && whole.contains("abcdé\u{a0}ü\tx\nTWO!\nred\n")
            && whole.ends_with("\nba\nend")
    );
    for size in [1, 2, 7, 63, 64, 65, 4096, 70_000] {
        assert!(shown(&mut text.as_bytes().chunks(size)) == whole, "in pieces of {size}");
    }
}

#[tokio::test]
async fn a_flood_on_standard_error_does_not_block() {
    let bench = bench("stderr");
    let outcome = bench.command("head -c 300000 /dev/zero | tr '\\0' e >&2; echo; echo ok").await;
    assert!(outcome.text.contains("\nok\n[exit 0 in "));
    assert_eq!(outcome.detail["bytes"], json!(300_004));
}

#[tokio::test]
async fn a_call_returns_when_the_shell_exits_though_a_process_it_left_holds_the_pipe() {
    for (command, count) in [
        ("sleep 300 & echo hi", 1),
        ("setsid sleep 300 & echo hi", 1),
        ("sleep 300 & setsid sleep 300 & disown; echo hi", 2),
        ("tail -f /dev/null & echo hi", 1),
        ("echo hi; yes &", 1),
    ] {
        let bench = bench("pipe");
        let begun = Instant::now();
        let outcome = bench.command(command).await;
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(5), "{command}: {took:?}");
        assert!(outcome.ok && outcome.text.contains("hi\n"), "{command}: {}", outcome.text);
        let left: Vec<u32> = serde_json::from_value(outcome.detail["processes_left"].clone()).unwrap();
        assert_eq!(left.len(), count, "{command}: {}", outcome.text);
        for pid in &left {
            assert!(outcome.text.contains(&format!("{pid}")) && alive(*pid), "{command}: {}", outcome.text);
        }
        assert!(outcome.text.contains("still attached"), "{command}: {}", outcome.text);
        assert_eq!((bench.processes.living(&["s".into()]).len(), bench.book.markers().len()), (count, 1), "{command}");
        // What it left goes on, also what writes, until the session ends it.
        let ended = bench.processes.end_all(&["s".into()], GRACE).await;
        assert_eq!(
            (ended.left(), marked(&bench.name), bench.book.markers().len()),
            (0, BTreeMap::new(), 0),
            "{command}"
        );
    }
}

#[tokio::test]
async fn a_left_process_can_be_ended_by_the_model() {
    let bench = bench("killable");
    let outcome = bench.command("sleep 300 & echo hi").await;
    let [pid] = serde_json::from_value::<Vec<u32>>(outcome.detail["processes_left"].clone()).unwrap()[..] else {
        panic!()
    };
    assert!(bench.command(&format!("kill {pid}")).await.ok);
    until("the tree is closed", || bench.book.markers().is_empty() && !alive(pid)).await;
    let outcome = bench.command("sleep 99 & kill %1; wait; pgrep -f '^sleep 99$' || echo none").await;
    assert!(outcome.text.contains("none\n[exit 0"), "{}", outcome.text);
}

#[tokio::test]
async fn a_command_past_its_time_limit_is_ended_with_all_its_processes() {
    let bench = bench("limit");
    let outcome = bench.run(json!({ "command": "echo begun; setsid sleep 300 & trap '' TERM; sleep 300; sleep 300", "timeout_ms": 300 })).await;
    assert!(!outcome.ok && outcome.text.starts_with("begun\n[stopped after "), "{}", outcome.text);
    assert!(outcome.text.contains("the time limit; every process of it is gone"), "{}", outcome.text);
    assert_eq!((marked(&bench.name), bench.book.markers().len()), (BTreeMap::new(), 0));
}

#[tokio::test]
async fn a_cancelled_call_ends_its_command_and_answers_what_came() {
    let bench = bench("cancel");
    let cancelling = async {
        until("it began", || bench.watcher.text().contains("begun")).await;
        bench.cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(bench.command("echo begun; setsid sleep 300 & yes > /dev/null"), cancelling);
    assert!(!outcome.ok && outcome.text.starts_with("begun\n[cancelled after "), "{}", outcome.text);
    assert_eq!((marked(&bench.name), bench.book.markers().len()), (BTreeMap::new(), 0));
    assert_eq!(
        bench.command("echo again").await,
        Outcome::fail("The call was cancelled before the command was started.")
    );
}

#[tokio::test]
async fn output_is_shown_while_the_command_runs() {
    let bench = bench("live");
    let watching = async {
        until("the first is shown", || bench.watcher.text() == "first").await;
        until("the file is made", || std::fs::write(format!("/tmp/{}", bench.name), "").is_ok()).await;
    };
    let command =
        format!("printf first; until [ -e {0} ]; do sleep 0.02; done; rm {0}; printf ' half\\nsecond'", bench.name);
    let (outcome, ()) = tokio::join!(bench.command(&command), watching);
    assert!(outcome.ok);
    assert_eq!(bench.watcher.text(), "first half\nsecond");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_that_gives_no_sign_of_life_is_ended_with_that_reason_and_one_that_works_is_not() {
    let bench = bench("silent");
    let outcome = bench.run(json!({ "command": "echo begun; sleep 300", "timeout_ms": 60_000 })).await;
    assert!(!outcome.ok && outcome.text.starts_with("begun\n[stopped after "), "{}", outcome.text);
    assert!(outcome.text.contains("no sign of life, neither output nor work, for 0.6 s"), "{}", outcome.text);
    assert!(outcome.text.contains("every process of it is gone"), "{}", outcome.text);
    // Both are at it for longer than the bound: one writes, one works.
    for command in [
        "for n in $(seq 8); do echo $n; sleep 0.2; done; echo done",
        "end=$(($(date +%s%N) + 1500000000)); while [ $(date +%s%N) -lt $end ]; do :; done; echo done",
    ] {
        let outcome = bench.run(json!({ "command": command, "timeout_ms": 60_000 })).await;
        assert!(outcome.ok && outcome.text.contains("done\n"), "{command}: {}", outcome.text);
    }
    assert_eq!(bench.book.markers().len(), 0);
}

#[tokio::test]
async fn bad_arguments_are_answered_and_start_nothing() {
    let bench = bench("bad");
    for (args, word) in [
        (json!({}), "command"),
        (json!({ "command": "  " }), "empty"),
        (json!({ "command": 3 }), "string"),
        (json!({ "command": "true", "timeout_ms": 600_001 }), "600000"),
        (json!({ "command": "true", "timeout_ms": 0 }), "between 1"),
        (json!({ "command": "true", "run_in_background": true }), "not available"),
        (json!({ "command": "true", "nonsense": 1 }), "nonsense"),
        (json!({ "command": "echo \u{0}" }), "could not be started"),
        (json!({ "command": format!("true {}", "x".repeat(1 << 20)) }), "could not be started"),
        (json!(null), "arguments"),
    ] {
        let outcome = bench.run(args.clone()).await;
        assert!(!outcome.ok && outcome.text.contains(word), "{word}: {}", outcome.text);
    }
    assert_eq!(bench.book.markers().len(), 0);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "descriptors are counted in a process where no other test runs")]
fn many_short_commands_leave_no_descriptor_and_no_process() {
    let alone = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["bash::many_short_commands_alone", "--exact", "--ignored"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&alone.stdout);
    assert!(alone.status.success() && told.contains("1 passed"), "{told}");
}

#[tokio::test]
#[ignore = "another test starts it in a process of its own"]
async fn many_short_commands_alone() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let bench = bench("many");
    for _ in 0..5 {
        bench.command("true").await;
    }
    let before = descriptors();
    for n in 0..200 {
        let outcome = bench.command(&format!("echo {n}")).await;
        assert!(outcome.ok, "{}", outcome.text);
    }
    assert_eq!((bench.book.markers().len(), marked(&bench.name)), (0, BTreeMap::new()));
    // The last command's may still be closing.
    assert!(descriptors() <= before + 8, "{before} descriptors before, {} after", descriptors());
}

fn plan(name: &str, command: &str) -> Plan {
    Plan { name: name.to_owned(), ..crate::process::plan("s", name, command) }
}

#[tokio::test]
async fn a_background_command_settles_when_its_last_process_is_gone() {
    let (processes, book) = processes("settles");
    let dir = tempfile::tempdir().unwrap();
    let command = "echo begun; (sleep 0.6; echo late) & exit 3";
    let started =
        start_background(&processes, plan("bash-1", command), dir.path(), 1 << 20, CancellationToken::new(), GRACE);
    let started = started.await.unwrap();
    let mut done = started.done;
    until("it began", || (&mut done).now_or_never().is_some() || started.output.size() >= 6).await;
    assert!(!started.output.read(0, 100).unwrap().done);
    let end = tokio::time::timeout(Duration::from_secs(20), done).await.unwrap();
    assert_eq!((end.exit, end.ended, end.cancelled), (Some(Exit { code: Some(3), signal: None }), None, false));
    let output = started.output.read(0, 100).unwrap();
    assert_eq!((output.text.as_str(), output.done, book.markers().len()), ("begun\nlate\n", true, 0));
}

#[tokio::test]
async fn a_background_server_keeps_its_task_running_until_it_is_cancelled() {
    let (processes, book) = processes("server");
    let dir = tempfile::tempdir().unwrap();
    let cancel = CancellationToken::new();
    let command = "setsid sleep 300 > /dev/null 2>&1 & echo up; exit 0";
    let started = start_background(&processes, plan("bash-1", command), dir.path(), 1 << 20, cancel.clone(), GRACE)
        .await
        .unwrap();
    let mut done = started.done;
    until("it is up", || (&mut done).now_or_never().is_some() || started.output.size() == 3).await;
    until("the shell is gone", || {
        assert!((&mut done).now_or_never().is_none(), "settled while the server lives");
        marked(&store("server")).values().all(|line| line.starts_with("sleep "))
    })
    .await;
    assert_eq!(marked(&store("server")).len(), 1);
    cancel.cancel();
    let end = tokio::time::timeout(Duration::from_secs(20), done).await.unwrap();
    let ended = end.ended.unwrap();
    assert_eq!((end.exit, end.cancelled, ended.left()), (Some(Exit { code: Some(0), signal: None }), true, 0));
    assert!(!ended.processes.is_empty());
    assert_eq!((marked(&store("server")), book.markers().len()), (BTreeMap::new(), 0));
}

#[tokio::test]
async fn endless_background_output_is_bounded_on_disk() {
    let (processes, _) = processes("endless");
    let dir = tempfile::tempdir().unwrap();
    let cancel = CancellationToken::new();
    let started = start_background(&processes, plan("bash-1", "yes"), dir.path(), 256 * 1024, cancel.clone(), GRACE)
        .await
        .unwrap();
    let log = started.output.clone();
    let (end, ()) = tokio::join!(started.done, async {
        until("much has come", || log.size() > 20 * 1024 * 1024).await;
        cancel.cancel();
    });
    assert_eq!(end.ended.unwrap().left(), 0);
    let kept: u64 = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(kept <= 256 * 1024, "{kept} bytes on disk");
    let slice = log.read(0, 10).unwrap();
    assert_eq!((slice.text.as_str(), slice.done, slice.size == log.size()), ("y\ny\ny\ny\ny\n", true, true));
}

struct Runtime(Mutex<Vec<(String, String)>>);

#[async_trait::async_trait]
impl StartBackground for Runtime {
    async fn start(&self, _call: &Call, plan: Plan, label: String, _limit: Option<Duration>) -> Result<TaskId> {
        self.0.lock().unwrap().push((plan.args[1].to_string_lossy().into_owned(), label));
        Ok("bash-1".into())
    }
}

#[tokio::test]
async fn the_model_is_offered_background_tasks_only_where_they_can_be_started() {
    let mut bench = bench("offer");
    let offered = |bash: &Bash| bash.spec(&given()).parameters["properties"].get("run_in_background").is_some();
    assert!(!offered(&bench.bash));
    let runtime = Arc::new(Runtime(Mutex::default()));
    bench.bash = Bash::new(bench.processes.clone(), Some(runtime.clone()), GRACE, IDLE);
    assert!(offered(&bench.bash));
    let outcome = bench
        .run(json!({ "command": "make serve", "description": "Serve the pages", "run_in_background": true }))
        .await;
    assert!(outcome.ok && outcome.text.starts_with("Started background task bash-1."), "{}", outcome.text);
    assert!(outcome.text.contains("task_output"));
    assert_eq!(outcome.detail, json!({ "command": "make serve", "task": "bash-1" }));
    assert_eq!(*runtime.0.lock().unwrap(), vec![("make serve".to_owned(), "Serve the pages".to_owned())]);
    assert!(Path::new("/proc").exists());
}
