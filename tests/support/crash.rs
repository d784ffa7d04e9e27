//! The crash lab: the real program works on a tree of three levels with commands, is killed at a random instant and
//! started again, and everything that it had promised is looked for.

use super::{Place, Rpc, mark, processes_with};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::{Duration, Instant};

/// How many rounds one data folder lives through.
const LIFE: usize = 20;
/// How many prompts one root is given.
const PROMPTS: usize = 4;
/// How many sessions are resumed in the end.
const RESUMED: u64 = 10;
/// The longest that the program may work before it is killed.
const WORK_MS: u64 = 250;
/// Event kinds that the end of a turn must not leave open.
const TERMINAL: &[&str] = &["completed", "failed", "killed", "interrupted"];

/// What the rounds came to.
#[derive(Default)]
pub struct Findings {
    /// How many rounds there were.
    pub rounds: usize,
    /// Broken promises, in words.
    pub faults: Vec<String>,
    /// From the start after a crash to its first answer.
    pub recoveries: Vec<Duration>,
    /// Messages that were answered for before a crash, and tasks that were seen to end.
    pub messages: usize,
    pub tasks: usize,
}

/// Numbers that look random and come again with the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// A message that was handed in.
struct Sent {
    text: String,
    /// The question, while it is open.
    asked: u64,
    /// Whether the program had answered that it is accepted.
    promised: bool,
}

/// Kills and starts `rounds` times.
pub fn rounds(rounds: usize, seed: u64) -> Findings {
    let mut findings = Findings::default();
    let mut dice = Dice(seed.max(1));
    while findings.rounds < rounds {
        let lives = LIFE.min(rounds - findings.rounds);
        Life::new(findings.rounds).live(lives, &mut dice, &mut findings);
    }
    findings
}

/// One data folder.
struct Life {
    place: Place,
    mark: String,
    root: Option<String>,
    prompts: usize,
    sent: Vec<Sent>,
    count: usize,
}

impl Life {
    fn new(number: usize) -> Self {
        let mark = mark(u32::try_from(number % 100).unwrap_or(0));
        let place = Place::new(script(&mark));
        place.configure("[limits]\nstop_grace_ms = 200\nlive_children = 0\nchildren = 0\n");
        Self { place, mark, root: None, prompts: 0, sent: Vec::new(), count: 0 }
    }

    fn live(mut self, rounds: usize, dice: &mut Dice, findings: &mut Findings) {
        for round in 0..rounds {
            let mut rpc = self.start(round > 0, findings);
            self.work(&mut rpc, dice);
            std::thread::sleep(Duration::from_millis(dice.below(WORK_MS)));
            rpc.running.signal("-KILL");
            rpc.running.ended();
            self.hear(&mut rpc);
            findings.rounds += 1;
        }
        let mut rpc = self.start(true, findings);
        self.resume(&mut rpc, dice, findings);
        let code = rpc.end();
        self.check(code == Some(0), &format!("it ended with {code:?}"), findings);
        self.check(processes_with(&self.mark).is_empty(), "processes outlived an orderly end", findings);
    }

    fn check(&self, holds: bool, what: &(impl Display + ?Sized), findings: &mut Findings) {
        if !holds {
            findings.faults.push(format!("round {}: {what}", findings.rounds));
        }
    }

    /// Starts the program; after a crash it is looked whether it has kept everything.
    fn start(&mut self, crashed: bool, findings: &mut Findings) -> Rpc {
        let began = Instant::now();
        let mut rpc = self.place.rpc();
        let tree = rpc.call("tree", json!({}));
        if crashed {
            findings.recoveries.push(began.elapsed());
            let left = processes_with(&self.mark);
            self.check(left.is_empty(), &format!("survivors: {left:?}"), findings);
            self.look(&mut rpc, &tree, findings);
        }
        rpc
    }

    /// Hands in a few things and waits for nothing.
    fn work(&mut self, rpc: &mut Rpc, dice: &mut Dice) {
        if self.root.is_none() || self.prompts == PROMPTS {
            self.count += 1;
            let args = json!({ "cwd": self.place.work(), "mode": "full", "key": format!("open {}", self.count) });
            self.root = rpc.call("open", args)["session"].as_str().map(str::to_owned);
            self.prompts = 0;
        }
        self.prompts += 1;
        let tree = rpc.call("tree", json!({}));
        let children: Vec<String> = tree["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|session| !session["parent"].is_null())
            .map(|session| session["id"].as_str().unwrap().to_owned())
            .collect();
        let root = self.root.clone().unwrap();
        self.send(rpc, "prompt", "session", &root);
        for _ in 0..dice.below(3) {
            if !children.is_empty() {
                let child = &children[usize::try_from(dice.below(children.len() as u64)).unwrap()];
                self.send(rpc, "send", "child", child);
            }
        }
        if dice.below(4) == 0 {
            rpc.ask("stop", json!({ "what": "everything", "key": format!("stop {}", self.count) }));
        }
    }

    fn send(&mut self, rpc: &mut Rpc, cmd: &str, whom: &str, session: &str) {
        self.count += 1;
        let text = format!("message <{}>", self.count);
        let asked = rpc.ask(cmd, json!({ whom: session, "text": text, "key": format!("key {}", self.count) }));
        self.sent.push(Sent { text, asked, promised: false });
    }

    /// Reads what the program had said before it was killed.
    fn hear(&mut self, rpc: &mut Rpc) {
        while let Some(line) = rpc.running.line() {
            // The last line may be cut.
            let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
            let accepted = message.get("ok").is_some();
            if let Some(sent) = self.sent.iter_mut().rev().find(|sent| message["id"] == sent.asked && accepted) {
                sent.promised = true;
            }
        }
        // Ids begin anew with the next start.
        for sent in &mut self.sent {
            sent.asked = u64::MAX;
        }
    }

    /// Looks whether the store is sound and everything in it holds together.
    fn look(&self, rpc: &mut Rpc, tree: &Value, findings: &mut Findings) {
        let store = self.place.data().join("coppice.db");
        let sql = Connection::open_with_flags(store, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let sound: String = sql.query_row("PRAGMA quick_check", [], |row| row.get(0)).unwrap();
        self.check(sound == "ok", &format!("the store: {sound}"), findings);
        let mut accepted: BTreeMap<String, usize> = BTreeMap::new();
        for session in tree["sessions"].as_array().unwrap() {
            let (id, state) = (session["id"].as_str().unwrap(), session["state"].as_str().unwrap());
            let live = ["starting", "running", "stopping", "waiting"].contains(&state);
            self.check(!live, &format!("{id} is {state} after a crash"), findings);
            let events = rpc.call("events", json!({ "session": id, "limit": 2000 }));
            self.look_at(id, events["events"].as_array().unwrap(), &mut accepted, findings);
        }
        let mut promised = 0;
        for sent in &self.sent {
            let times = accepted.get(&sent.text).copied().unwrap_or(0);
            self.check(times <= 1, &format!("{} is there {times} times", sent.text), findings);
            self.check(times == 1 || !sent.promised, &format!("{} was accepted and is lost", sent.text), findings);
            promised += usize::from(sent.promised);
        }
        findings.messages += promised;
        for task in tree["tasks"].as_array().unwrap() {
            let status = task["status"].as_str().unwrap();
            self.check(TERMINAL.contains(&status), &format!("{} is {status} after a crash", task["id"]), findings);
        }
    }

    /// Looks at the log of one session.
    fn look_at(&self, id: &str, events: &[Value], accepted: &mut BTreeMap<String, usize>, findings: &mut Findings) {
        // How often each thing began, and how often it ended.
        let mut ends: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        let mut read: BTreeMap<i64, usize> = BTreeMap::new();
        let mut told: BTreeMap<String, usize> = BTreeMap::new();
        for (at, event) in events.iter().enumerate() {
            self.check(event["n"] == at + 1, &format!("{id}: event {at} has another number"), findings);
            let body = &event["body"];
            let began = |ends: &mut BTreeMap<_, (usize, usize)>, what: String| ends.entry(what).or_default().0 += 1;
            let ended = |ends: &mut BTreeMap<_, (usize, usize)>, what: String| ends.entry(what).or_default().1 += 1;
            match event["kind"].as_str().unwrap() {
                "message_accepted" => {
                    *accepted.entry(body["text"].as_str().unwrap().to_owned()).or_default() += 1;
                    read.entry(event["n"].as_i64().unwrap()).or_default();
                }
                "message_admitted" | "message_dropped" => {
                    *read.entry(body["message"].as_i64().unwrap()).or_default() += 1;
                }
                "notice_admitted" => *told.entry(body["task"].to_string()).or_default() += 1,
                "turn_started" => began(&mut ends, format!("turn {}", body["turn"])),
                "turn_ended" => ended(&mut ends, format!("turn {}", body["turn"])),
                "task_started" => began(&mut ends, format!("task {}", body["task"])),
                "task_settled" => ended(&mut ends, format!("task {}", body["task"])),
                "answered" => {
                    for block in body["blocks"].as_array().unwrap().iter().filter(|block| block["type"] == "tool_call")
                    {
                        began(&mut ends, format!("call {}", block["id"]));
                    }
                }
                "tool_finished" => ended(&mut ends, format!("call {}", body["call"])),
                _ => {}
            }
        }
        findings.tasks += ends.keys().filter(|what| what.starts_with("task ")).count();
        for (what, (began, ended)) in ends {
            let words = format!("{id}: {what} began {began} and ended {ended} times");
            self.check((began, ended) == (1, 1), &words, findings);
        }
        for (n, times) in read {
            self.check(times <= 1, &format!("{id}: message {n} was read {times} times"), findings);
        }
        for (task, times) in told {
            self.check(times <= 1, &format!("{id}: the end of {task} was told {times} times"), findings);
        }
    }

    /// Sessions go on where they were.
    fn resume(&mut self, rpc: &mut Rpc, dice: &mut Dice, findings: &mut Findings) {
        let tree = rpc.call("tree", json!({}));
        let sessions = tree["sessions"].as_array().unwrap();
        let chosen = |dice: &mut Dice| dice.below(sessions.len() as u64) < RESUMED;
        for session in sessions.iter().filter(|_| chosen(dice)) {
            let id = session["id"].as_str().unwrap();
            self.count += 1;
            let (cmd, whom) = if session["parent"].is_null() { ("prompt", "session") } else { ("send", "child") };
            let text = format!("message <{}>", self.count);
            let asked = rpc.ask(cmd, json!({ whom: id, "text": text, "key": format!("key {}", self.count) }));
            let answer = rpc.answer(asked);
            self.check(answer.is_ok(), &format!("{id} cannot be resumed: {answer:?}"), findings);
            rpc.call("stop", json!({ "what": "everything", "key": format!("stop after {}", self.count) }));
        }
    }
}

/// Three levels: a root that starts two branches at each prompt, each of which starts two leaves and waits for their
/// ends, all with commands of their own.
fn script(mark: &str) -> Value {
    let call = |tool: &str, args: Value| json!({ "call": { "tool": tool, "args": args } });
    let background = |command: String| {
        call("bash", json!({ "command": command, "description": "a command", "run_in_background": true }))
    };
    let delegate =
        |label: &str| call("subagent", json!({ "description": label, "prompt": "Do it.", "run_in_background": true }));
    let say = |text: &str| json!({ "say": text });
    let pause = |ms: u64| json!({ "wait_ms": ms });
    let begin =
        json!([say("I delegate."), delegate("branch"), delegate("branch"), background(format!("sleep {mark}"))]);
    let root: Vec<Value> = (0..40).flat_map(|_| [begin.clone(), json!([say("They are at work.")])]).collect();
    let branch = json!([
        [delegate("leaf"), delegate("leaf"), background(format!("setsid sleep {mark} & sleep {mark}"))],
        [call("bash", json!({ "command": "sleep 0.05", "description": "a short one" }))],
        [call("task_output", json!({ "task_id": "{{task:0}}", "wait": true, "timeout_ms": 500 })), pause(20)],
        [say("The branch has grown.")],
    ]);
    let leaf = json!([
        [say("A leaf."), background(format!("sleep 0.02; sleep {mark}"))],
        [call("glob", json!({ "pattern": "*" })), pause(10)],
        [say("It is green.")],
    ]);
    json!({ "sessions": {
        "root": { "steps": root },
        "branch": { "steps": branch },
        "leaf": { "steps": leaf },
    } })
}
