//! Process trees: they end wholly and provably, and nothing else does.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use coppice_engine::env;
use coppice_engine::error::{Code, Error, Result};
use coppice_engine::event::ReceiptProcess;
use coppice_engine::id::SessionId;
use coppice_engine::process::{Confinement, Ended, Exit, Ledger, LedgerEntry, Plan, Processes, Tree};
use futures::FutureExt;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const GRACE: Duration = Duration::from_millis(300);

/// A ledger in memory.
#[derive(Default)]
pub struct Book {
    entries: Mutex<Vec<LedgerEntry>>,
    full: AtomicBool,
}

#[async_trait::async_trait]
impl Ledger for Book {
    async fn note(&self, entry: LedgerEntry) -> Result<()> {
        if self.full.load(Ordering::Relaxed) {
            return Err(Error::new(Code::Store, "The disk is full."));
        }
        self.entries.lock().unwrap().push(entry);
        Ok(())
    }

    async fn strike(&self, marker: &str) -> Result<()> {
        self.entries.lock().unwrap().retain(|entry| entry.marker != marker);
        Ok(())
    }

    async fn open_entries(&self) -> Result<Vec<LedgerEntry>> {
        Ok(self.entries.lock().unwrap().clone())
    }
}

impl Book {
    pub fn markers(&self) -> Vec<String> {
        self.entries.lock().unwrap().iter().map(|entry| entry.marker.clone()).collect()
    }
}

/// A data folder's name that no other test and no other run has.
pub fn store(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

pub fn processes(name: &str) -> (Processes, Arc<Book>) {
    let book = Arc::new(Book::default());
    (Processes::new(&store(name), book.clone()), book)
}

pub fn plan(session: &str, name: &str, command: &str) -> Plan {
    Plan {
        session: session.into(),
        name: name.to_owned(),
        label: command.to_owned(),
        program: "/bin/bash".into(),
        args: vec!["-c".into(), command.into()],
        cwd: "/".into(),
        confinement: Confinement::None,
    }
}

/// The living processes whose environment names this data folder, the guards apart, with their command lines.
pub fn marked(store: &str) -> BTreeMap<u32, String> {
    let wanted = format!("COPPICE_TASK={store}:");
    let rows = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let environment = std::fs::read(entry.path().join("environ")).ok()?;
        let variables: Vec<_> = environment.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        let ours = variables.iter().any(|variable| variable.starts_with(&wanted));
        let guard = variables.iter().any(|variable| variable.starts_with("COPPICE_GUARD="));
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        (ours && !guard).then(|| (pid, String::from_utf8_lossy(&line).replace('\0', " ")))
    });
    rows.collect()
}

pub fn alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
}

/// Waits for a condition; the bound is only a safety net.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let bound = tokio::time::Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(tokio::time::Instant::now() < bound, "waited too long until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Reads until the output says this.
async fn said(tree: &mut Tree, what: &str) -> String {
    let mut text = String::new();
    while !text.contains(what) {
        let chunk = tokio::time::timeout(Duration::from_secs(20), tree.output.recv()).await.expect("output in time");
        let Some(chunk) = chunk else { panic!("the output closed after {text:?}") };
        text.push_str(&String::from_utf8_lossy(&chunk));
    }
    text
}

async fn whole(tree: &mut Tree) -> String {
    let mut text = String::new();
    while let Some(chunk) = tree.output.recv().await {
        text.push_str(&String::from_utf8_lossy(&chunk));
    }
    text
}

fn pids(ended: &Ended) -> Vec<u32> {
    ended.processes.iter().map(|process| process.pid).collect()
}

/// Starts `command`, waits until it says `ready`, and stops it; the receipt has to name at least `count` processes, all
/// gone, and nothing that carries the data folder's marker may be left.
async fn stops(name: &str, command: &str, count: usize, forced: Option<bool>) {
    let (processes, book) = processes(name);
    let mut tree = processes.start(plan("s", "1", command)).await.unwrap();
    said(&mut tree, "ready").await;
    until("all of it runs", || tree.living().len() >= count).await;
    let ended = tree.end(GRACE).await;
    assert_eq!(ended.left(), 0, "{name}: {ended:?}");
    assert!(ended.processes.len() >= count, "{name}: {ended:?}");
    // A single look can miss what hands over to the next all the time.
    for _ in 0..20 {
        assert_eq!(marked(&store(name)), BTreeMap::new(), "{name}");
    }
    assert_eq!(ended.forced, forced.unwrap_or(ended.forced), "{name}");
    for pid in pids(&ended) {
        assert!(!alive(pid), "{name}: {pid} lives");
    }
    until("the tree is struck out of the ledger", || book.markers().is_empty()).await;
    assert_eq!(processes.living(&["s".into()]), vec![], "{name}");
}

#[tokio::test]
async fn a_stop_ends_every_process_of_the_tree() {
    stops("plain", "echo ready; sleep 600; true", 2, Some(false)).await;
    stops("pipeline", "echo ready; sleep 600 | sleep 600 | cat", 3, Some(false)).await;
    stops("session", "setsid sleep 600 & echo ready; wait", 2, Some(false)).await;
    stops("orphan", "(setsid setsid sleep 600 &) ; echo ready; sleep 600; true", 3, Some(false)).await;
    stops("stripped", "env -i sleep 600 & echo ready; exec sleep 600", 2, Some(false)).await;
    stops("stripped-session", "env -i setsid sleep 600 & echo ready; wait", 2, Some(false)).await;
    stops("deaf", "trap '' TERM; echo ready; sleep 600; sleep 600", 2, Some(true)).await;
    stops("deaf-session", "setsid bash -c 'trap \"\" TERM; echo ready; sleep 600; sleep 600' & wait", 2, Some(true))
        .await;
    stops("stopped", "sleep 600 & kill -STOP $!; echo ready; wait", 2, Some(false)).await;
    stops("fifty", "for i in $(seq 50); do setsid sleep 600 & done; echo ready; wait", 51, Some(false)).await;
}

#[tokio::test]
async fn a_stop_ends_what_makes_new_processes_all_the_time() {
    // Both end by themselves after a minute or so: a test that is killed must leave nothing that goes on for ever.
    let hop = r#"export N=20000 HOP='trap "" TERM; N=$((N - 1)); [ $N -gt 0 ] || exit; sleep 0.002; setsid sh -c "$HOP" & exit'
        sh -c "$HOP"; echo ready; sleep 600"#;
    stops("hop", hop, 2, None).await;
    let breed = r#"export N=4000
        export BREED='trap "" TERM; N=$((N - 1)); [ $N -gt 0 ] || exit; for i in 1 2 3; do sleep 0.01 & done; wait; exec sh -c "$BREED"'
        for i in 1 2 3 4; do setsid sh -c "$BREED" & done; echo ready; wait"#;
    stops("breed", breed, 5, None).await;

    let name = format!("hop-{}", std::process::id());
    let stripped = format!(
        r#"env -i NAME={name} N=20000 HOP='trap "" TERM; N=$((N - 1)); [ $N -gt 0 ] || exit; sleep 0.002; setsid sh -c "$HOP" $NAME & exit' sh -c 'sh -c "$HOP" $NAME'
        echo ready; sleep 600"#
    );
    stops("hop-stripped", &stripped, 2, None).await;
    for _ in 0..20 {
        assert_eq!(running_as(|line| line.ends_with(&name)), Vec::<u32>::new());
    }
}

#[tokio::test]
async fn a_command_cannot_end_the_app_by_signalling_its_parent_or_its_group() {
    let exit = |code| Exit { code: Some(code), signal: (code > 128).then_some(code - 128) };
    let cases = [
        ("kill $PPID; sleep 0.1; echo on", "on\n", exit(0)),
        ("exec sh -c 'kill $PPID; sleep 0.1; echo on'", "on\n", exit(0)),
        ("kill -INT $PPID; kill -HUP $PPID; kill -QUIT $PPID; echo on", "on\n", exit(0)),
        ("kill 0; sleep 5; echo on", "", exit(143)),
        ("kill -9 0", "", Exit { code: None, signal: Some(9) }),
        ("kill -9 $$", "", exit(137)),
        ("trap 'echo asked; exit 4' TERM; kill $$; sleep 5", "asked\n", exit(4)),
        ("trap 'echo interrupted; exit 5' INT; kill -INT $$; sleep 5", "interrupted\n", exit(5)),
    ];
    let (processes, book) = processes("guarded");
    for (command, output, expected) in cases {
        let mut tree = processes.start(plan("s", "1", command)).await.unwrap();
        assert_ne!(tree.pid(), std::process::id());
        let text = whole(&mut tree).await;
        assert_eq!((text.as_str(), tree.exited().await.unwrap()), (output, expected), "{command}");
        tokio::time::timeout(Duration::from_secs(20), tree.gone()).await.expect(command);
    }
    assert_eq!(book.markers(), Vec::<String>::new());
}

/// The living processes of the system with exactly this command line.
pub fn running(line: &str) -> Vec<u32> {
    running_as(|other| other == line)
}

/// The living processes of the system with such a command line.
fn running_as(fits: impl Fn(&str) -> bool) -> Vec<u32> {
    let rows = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let read = std::fs::read(entry.path().join("cmdline")).ok()?;
        fits(String::from_utf8_lossy(&read).replace('\0', " ").trim()).then_some(pid)
    });
    rows.collect()
}

/// How long a `sleep` of this test sleeps; no other process of the system sleeps as long.
pub fn nap(test: u32) -> String {
    format!("{}.{test}", 100_000 + std::process::id())
}

#[tokio::test]
async fn a_stop_ends_and_tells_what_left_its_group_its_environment_and_its_parent() {
    let nap = nap(1);
    let escapes = [
        format!("env -i setsid -f sleep {nap}"),
        format!("env -i setsid -f setsid -f setsid -f sleep {nap}"),
        format!("(env -i sh -c '(setsid -f sh -c \"sleep {nap} & exit\" & exit) & exit' &)"),
        format!("env -i COPPICE_GUARD=1 COPPICE_TASK=other:s:1 setsid -f sleep {nap}"),
        // It takes the guard's own look, and stays in its group.
        format!("COPPICE_GUARD=1 sleep {nap} &"),
        format!("env -i setsid -f sh -c 'trap \"\" TERM HUP INT; sleep {nap}; true'"),
        format!("{BLIND} env -i setsid -f sleep {nap}"),
    ];
    for (at, escape) in escapes.iter().enumerate() {
        for (ending, last) in [("the command", "sleep 600; true"), ("what it left", "exit 0")] {
            let (processes, book) = processes("escaped");
            // Nobody looks before the escape is done.
            let mut tree = processes.start(plan("s", "1", &format!("{escape}\n echo ready; {last}"))).await.unwrap();
            said(&mut tree, "ready").await;
            until(&format!("it sleeps: {escape}"), || !running(&format!("sleep {nap}")).is_empty()).await;
            let escaped = running(&format!("sleep {nap}"));
            let told = format!("{at}: a stop of {ending} after {escape}");
            if last == "exit 0" {
                assert_eq!(tree.exited().await.unwrap(), Exit { code: Some(0), signal: None }, "{told}");
            }
            assert!(tree.living().iter().any(|process| escaped.contains(&process.pid)), "{told}");
            let ended = processes.end_all(&["s".into()], GRACE).await;
            assert_eq!((ended.left(), running(&format!("sleep {nap}"))), (0, vec![]), "{told}: {ended:?}");
            let listed = |pid: &u32| ended.processes.iter().any(|process| process.pid == *pid && process.gone);
            assert!(escaped.iter().all(listed), "{told}: {escaped:?} {ended:?}");
            until("the tree is struck out of the ledger", || book.markers().is_empty()).await;
        }
    }
}

#[tokio::test]
async fn a_guard_takes_notice_of_the_end_of_what_it_was_given() {
    let (processes, _) = processes("reaped");
    let orphans = "for i in 1 2 3 4 5 6 7 8; do (setsid sh -c 'sleep 0.1; exit 3' & exit) & done";
    for last in ["sleep 600; true", "setsid sleep 600 & exit 7"] {
        let mut tree = processes.start(plan("s", "1", &format!("{orphans}; echo ready; {last}"))).await.unwrap();
        said(&mut tree, "ready").await;
        let guard = tree.pid();
        // The watcher, and the command or what it left.
        let children = || std::fs::read_to_string(format!("/proc/{guard}/task/{guard}/children")).unwrap();
        until("only those that live are left", || children().split(' ').filter(|pid| !pid.is_empty()).count() == 2)
            .await;
        if last.ends_with("exit 7") {
            assert_eq!(tree.exited().await.unwrap(), Exit { code: Some(7), signal: None });
        }
        assert_eq!(tree.end(GRACE).await.left(), 0);
    }
}

#[tokio::test]
async fn a_tree_ends_with_its_guard() {
    let (processes, book) = processes("unguarded");
    let command = "setsid sleep 600 & trap '' TERM; kill -9 $PPID; sleep 600; true";
    let tree = processes.start(plan("s", "1", command)).await.unwrap();
    let exit = tokio::time::timeout(Duration::from_secs(20), tree.exited()).await.unwrap().unwrap();
    assert_eq!(exit, Exit { code: None, signal: Some(9) });
    assert_eq!((tree.left_behind(), marked(&store("unguarded"))), (vec![], BTreeMap::new()));
    tokio::time::timeout(Duration::from_secs(20), tree.gone()).await.unwrap();
    assert_eq!(book.markers(), Vec::<String>::new());
}

#[tokio::test]
async fn standard_error_and_output_come_in_order_through_one_pipe() {
    let (processes, _) = processes("joined");
    let mut tree =
        processes.start(plan("s", "1", "echo a; echo b >&2; echo c; cat; echo d >&2; exit 3")).await.unwrap();
    assert_eq!(whole(&mut tree).await, "a\nb\nc\nd\n");
    assert_eq!(tree.exited().await.unwrap(), Exit { code: Some(3), signal: None });
}

#[tokio::test]
async fn a_stop_never_hits_a_neighbour_with_the_same_command_line() {
    let (processes, _) = processes("alike");
    for round in 0..20 {
        let a = processes.start(plan("s", &format!("{round}.a"), "sleep 600 # x")).await.unwrap();
        let (ended, b) = tokio::join!(a.end(GRACE), processes.start(plan("s", &format!("{round}.b"), "sleep 600 # x")));
        let b = b.unwrap();
        assert_eq!(ended.left(), 0);
        assert_eq!((b.exited().now_or_never().is_none(), b.living().len()), (true, 1), "round {round}");
        assert_eq!(b.end(GRACE).await.left(), 0);
    }
}

#[tokio::test]
async fn what_a_finished_command_left_behind_is_listed_until_its_session_ends_it() {
    let (processes, book) = processes("leftover");
    let (mine, other): ([SessionId; 1], [SessionId; 1]) = (["mine".into()], ["other".into()]);
    let command = "setsid sleep 600 & sleep 600 & exit 7";
    let tree = processes.start(plan("mine", "1", command)).await.unwrap();
    let neighbour = processes.start(plan("other", "1", command)).await.unwrap();
    assert_eq!(tree.exited().await.unwrap(), Exit { code: Some(7), signal: None });
    neighbour.exited().await.unwrap();
    drop(tree);
    until("both sleep", || processes.living(&mine).len() == 2 && neighbour.living().len() == 2).await;
    let living = processes.living(&mine);
    assert_eq!(processes.living(&[mine.clone(), other.clone()].concat()).len(), 4);
    assert_eq!(book.markers().len(), 2);

    let ended = processes.end_all(&mine, GRACE).await;
    let mut expected: Vec<_> = living.iter().map(|process| ReceiptProcess { gone: true, ..process.clone() }).collect();
    expected.sort_by_key(|process| (process.started_at, process.pid));
    let mut seen = ended.processes.clone();
    seen.sort_by_key(|process| (process.started_at, process.pid));
    assert_eq!((seen, ended.forced), (expected.clone(), false));
    let mut looked = processes.look(living);
    looked.sort_by_key(|process| (process.started_at, process.pid));
    assert_eq!(looked, expected);
    assert_eq!((processes.living(&mine).len(), processes.living(&other).len()), (0, 2));
    assert_eq!(book.markers(), vec![format!("{}:other:1", store("leftover"))]);
    assert_eq!(processes.end_all(&other, GRACE).await.left(), 0);
}

#[tokio::test]
async fn a_tree_that_begins_while_its_session_is_stopped_tells_its_exit_and_is_told_without_its_guard() {
    let (processes, _) = processes("young");
    let stubborn = "trap '' TERM; echo up; until [ -e /nowhere ]; do sleep 0.05; done";
    let mut old = processes.start(plan("s", "old", stubborn)).await.unwrap();
    said(&mut old, "up").await;
    let sessions = [SessionId::from("s")];
    let mut stop = std::pin::pin!(processes.end_all(&sessions, GRACE * 4));
    assert!(futures::poll!(&mut stop).is_pending());
    let young = processes.start(plan("s", "young", "exec sleep 600")).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(20), stop).await.unwrap();
    let exit = tokio::time::timeout(Duration::from_secs(20), young.exited()).await.unwrap().unwrap();
    assert_eq!(exit, Exit { code: Some(143), signal: Some(15) });
    assert!(
        !pids(&ended).contains(&young.pid()) && !pids(&ended).contains(&old.pid()),
        "a guard is told of: {ended:?}"
    );
    assert_eq!((ended.left(), processes.sessions()), (0, vec![]));
}

#[tokio::test]
async fn a_tree_that_ends_by_itself_is_struck_out_when_its_last_process_is_gone() {
    let (processes, book) = processes("natural");
    let tree = processes.start(plan("s", "1", "setsid sleep 0.5 & exit 0")).await.unwrap();
    tree.exited().await.unwrap();
    assert_eq!(book.markers().len(), 1);
    tokio::time::timeout(Duration::from_secs(20), tree.gone()).await.unwrap();
    assert_eq!((book.markers().len(), marked(&store("natural"))), (0, BTreeMap::new()));
}

#[tokio::test]
async fn what_cannot_be_written_down_or_started_leaves_nothing_behind() {
    let (processes, book) = processes("refused");
    book.full.store(true, Ordering::Relaxed);
    let refused = processes.start(plan("s", "1", "sleep 600")).await.map(|_| ()).unwrap_err();
    assert_eq!((refused.code(), marked(&store("refused"))), (Code::Store, BTreeMap::new()));
    let nowhere = Plan { cwd: "/no/such/folder".into(), ..plan("s", "1", "sleep 600") };
    let refused = processes.start(nowhere).await.map(|_| ()).unwrap_err();
    assert_eq!((refused.code(), processes.living(&["s".into()])), (Code::Gone, vec![]));
}

#[tokio::test]
async fn variables_that_hold_keys_do_not_reach_a_command() {
    let (processes, _) = processes("hidden");
    let look =
        || plan("s", "1", "[ -n \"$HOME\" ] && echo home; [ -n \"$PATH\" ] && echo path; env | grep -c COPPICE_GUARD");
    let mut tree = processes.start(look()).await.unwrap();
    assert_eq!(whole(&mut tree).await, "home\npath\n0\n");
    processes.hide(vec!["HOME".to_owned()]);
    let mut tree = processes.start(look()).await.unwrap();
    assert_eq!(whole(&mut tree).await, "path\n0\n");
}

/// Not a test of its own: the app of the tests below, which is killed while its commands run.
#[tokio::test]
#[ignore = "started by other tests as a process of its own"]
async fn an_app_that_will_crash() {
    let (Some(store), Some(command)) = (env::var("CRASH_STORE"), env::var("CRASH_COMMAND")) else { return };
    let book = Arc::new(Book::default());
    let processes = Processes::new(&store, book.clone());
    let mut tree = processes.start(plan("s", "bash-1", &command)).await.unwrap();
    said(&mut tree, "ready").await;
    until("all sleep", || marked(&store).values().filter(|line| line.starts_with("sleep ")).count() == 4).await;
    for entry in book.open_entries().await.unwrap() {
        println!("entry {} {} {} {}", entry.marker, entry.pid, entry.started, entry.boot);
    }
    println!("up");
    std::future::pending::<()>().await;
}

/// What runs when the app of a test crashes.
const CRASHED: &str = "sleep 601 & setsid sleep 602 & (setsid bash -c 'trap \"\" TERM; sleep 603; sleep 603' &) ; \
                       echo ready; sleep 604; true";

/// Before it: kills the guard's watcher, so that nobody hears of the crash.
const BLIND: &str = "for pid in $(cat /proc/$PPID/task/$PPID/children); do [ $pid = $$ ] || kill -9 $pid; done;";

/// Starts an app on the data folder `store`, kills it once its command runs, and answers its ledger.
#[expect(clippy::disallowed_methods, reason = "the app of a test is a process of its own")]
async fn crash(store: &str, command: &str) -> Vec<LedgerEntry> {
    use tokio::io::{AsyncBufReadExt, BufReader};
    let mut app = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["process::an_app_that_will_crash", "--exact", "--ignored", "--nocapture"])
        .env("CRASH_STORE", store)
        .env("CRASH_COMMAND", command)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(app.stdout.take().unwrap()).lines();
    let mut entries = Vec::new();
    loop {
        let line = tokio::time::timeout(Duration::from_secs(20), lines.next_line()).await.unwrap().unwrap().unwrap();
        // The harness writes the test's name before what the test prints.
        let words: Vec<&str> = line.split(' ').skip_while(|word| *word != "entry").collect();
        if let [_, marker, pid, started, boot] = words[..] {
            entries.push(LedgerEntry {
                marker: marker.to_owned(),
                label: "the command".to_owned(),
                pid: pid.parse().unwrap(),
                started: started.parse().unwrap(),
                boot: boot.to_owned(),
            });
        }
        if line.ends_with("up") {
            break;
        }
    }
    app.kill().await.unwrap();
    entries
}

#[tokio::test]
async fn a_crash_takes_everything_along() {
    let (mine, nap) = (store("crashed"), nap(2));
    let escaped = format!("env -i setsid -f sleep {nap}; env -i setsid -f sh -c 'trap \"\" TERM; sleep {nap}; true';");
    let hop = r#"export N=20000 HOP='N=$((N - 1)); [ $N -gt 0 ] || exit; sleep 0.002; setsid sh -c "$HOP" & exit'; sh -c "$HOP";"#;
    assert_eq!(crash(&mine, &format!("{escaped} {CRASHED}")).await.len(), 1);
    until("all of it is gone", || marked(&mine).is_empty() && running(&format!("sleep {nap}")).is_empty()).await;

    crash(&mine, &format!("{hop} {CRASHED}")).await;
    until("all of it is gone", || marked(&mine).is_empty()).await;
    // A single look can miss what hands over to the next all the time.
    for _ in 0..20 {
        assert_eq!(marked(&mine), BTreeMap::new());
    }
    let processes = Processes::new(&mine, Arc::new(Book::default()));
    assert_eq!(processes.inquest(GRACE).await.unwrap(), vec![]);
}

#[tokio::test]
async fn the_next_start_ends_what_a_crash_has_left_and_nothing_else() {
    let (mine, other, nap) = (store("left"), store("left-neighbour"), nap(3));
    let entries = crash(&mine, &format!("{BLIND} env -i setsid -f sleep {nap}; {CRASHED}")).await;
    let neighbours = crash(&other, &format!("{BLIND} {CRASHED}")).await;
    assert_eq!((entries.len(), neighbours.len()), (1, 1));
    let (mut left, untouched) = (marked(&mine), marked(&other));
    assert_eq!((left.len(), untouched.len()), (6, 6), "{left:?} {untouched:?}");
    left.extend(running(&format!("sleep {nap}")).into_iter().map(|pid| (pid, "escaped".to_owned())));
    assert_eq!(left.len(), 7, "{left:?}");

    let book = Arc::new(Book::default());
    *book.entries.lock().unwrap() = entries.clone();
    let processes = Processes::new(&mine, book.clone());
    let running = processes.start(plan("s", "bash-2", "sleep 600")).await.unwrap();
    let found = processes.inquest(GRACE).await.unwrap();
    let mut pids: Vec<u32> = found.iter().map(|(_, process)| process.pid).collect();
    pids.sort_unstable();
    assert_eq!(pids, left.keys().copied().collect::<Vec<_>>());
    assert!(found.iter().all(|(entry, process)| *entry == entries[0] && process.gone), "{found:?}");
    assert_eq!(marked(&other), untouched);
    assert_eq!((running.exited().now_or_never().is_none(), running.living().len()), (true, 1));
    assert_eq!(book.markers(), vec![format!("{mine}:s:bash-2")]);
    assert_eq!(running.end(GRACE).await.left(), 0);

    // A process that was never written down is found by its marker.
    let processes = Processes::new(&other, Arc::new(Book::default()));
    let found = processes.inquest(GRACE).await.unwrap();
    assert_eq!((found.len(), marked(&other)), (6, BTreeMap::new()));
    assert!(found.iter().all(|(entry, process)| entry.marker == format!("{other}:s:bash-1") && process.gone));
    assert_eq!(processes.inquest(GRACE).await.unwrap(), vec![]);
}

#[tokio::test]
async fn the_inquest_leaves_a_reused_pid_and_another_boot_alone() {
    let (strangers, stranger_book) = processes("stranger");
    let stranger = strangers.start(plan("s", "1", "sleep 600")).await.unwrap();
    let entry = stranger_book.entries.lock().unwrap()[0].clone();
    let marker = |name: &str| format!("{}:s:{name}", store("reused"));
    let book = Arc::new(Book::default());
    *book.entries.lock().unwrap() = vec![
        LedgerEntry { marker: marker("earlier"), started: entry.started - 1, ..entry.clone() },
        LedgerEntry { marker: marker("boot"), boot: "another".to_owned(), ..entry.clone() },
        LedgerEntry { marker: marker("nobody"), pid: 1 << 30, ..entry.clone() },
    ];
    let processes = Processes::new(&store("reused"), book.clone());
    assert_eq!(processes.inquest(GRACE).await.unwrap(), vec![]);
    assert_eq!(
        (stranger.exited().now_or_never().is_none(), stranger.living().len(), book.markers().len()),
        (true, 1, 0)
    );
    assert_eq!(stranger.end(GRACE).await.left(), 0);
}

#[test]
fn a_process_is_gone_when_its_pid_belongs_to_another() {
    let (processes, _) = processes("look");
    let now = |started_at| ReceiptProcess { pid: std::process::id(), started_at, gone: false };
    let start = coppice_engine::env::Env::system().now_ms();
    let [old] = &processes.look(vec![now(start - 86_400_000)])[..] else { panic!() };
    assert!(old.gone);
    assert!(Path::new("/proc/self").exists());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_left_a_killed_guard_is_found_by_the_pipe_that_it_holds_and_the_rest_is_said_to_be_unconfirmed() {
    let nap = nap(9);
    for killer in ["the command", "a stranger"] {
        let (processes, _) = processes("orphaned");
        let last = if killer == "the command" { "sleep 1; kill -9 $PPID" } else { "sleep 600; true" };
        let command = format!("(setsid env -i sleep {nap} & exit); echo ready; {last}");
        let mut tree = processes.start(plan("s", "1", &command)).await.unwrap();
        said(&mut tree, "ready").await;
        until("it sleeps", || !running(&format!("sleep {nap}")).is_empty()).await;
        if killer == "a stranger" {
            let pid = rustix::process::Pid::from_raw(i32::try_from(tree.pid()).unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        tokio::time::timeout(Duration::from_secs(20), tree.gone()).await.unwrap();
        assert_eq!(running(&format!("sleep {nap}")), Vec::<u32>::new(), "{killer}");
        let told = processes.unguarded(&["s".into()]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("The guard of ") && told[0].ends_with("may live on."), "{told:?}");
        assert_eq!(processes.unguarded(&["s".into()]), Vec::<String>::new(), "it is told once");
    }
}
