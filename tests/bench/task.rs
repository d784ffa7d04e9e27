//! The two ends of a task as its owner's model meets them: the id that it is told, and the notice of the end. In the
//! engine itself, with a model that plays and notes when it was asked and when it answered.

use crate::append::commit;
use crate::measure::{Line, Sample};
use async_trait::async_trait;
use coppice_engine::config::Config;
use coppice_engine::engine::{Engine, Opening};
use coppice_engine::env::{Clock, Env};
use coppice_engine::event::{Block, Event, Mode, Stop, TreeLimits, Usage};
use coppice_engine::id::{CallId, SessionId};
use coppice_engine::llm::{Failure, Message, Model, Reply, Request, Sink};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

const ROUNDS: usize = 40;
const PATIENCE: Duration = Duration::from_secs(30);

/// Counts microseconds, where the engine reads milliseconds: what it stamps can be told apart.
#[derive(Clone)]
struct Fine(Instant);

impl Clock for Fine {
    fn now_ms(&self) -> i64 {
        self.0.elapsed().as_micros() as i64
    }

    fn uptime_ms(&self) -> i64 {
        self.0.elapsed().as_millis() as i64
    }
}

/// The root delegates when it is prompted; a child ends when it may.
struct Player {
    clock: Fine,
    may_end: Semaphore,
    noted: Mutex<Noted>,
}

/// Times in microseconds.
#[derive(Default)]
struct Noted {
    called: Vec<i64>,
    told_id: Vec<i64>,
    child_ended: Vec<i64>,
    told_end: Vec<i64>,
}

#[async_trait]
impl Model for Player {
    async fn ask(&self, request: &Request, _: &dyn Sink) -> Result<Reply, Failure> {
        let now = || self.clock.now_ms();
        let noted = || self.noted.lock().unwrap();
        let asked = now();
        if request.depth > 0 {
            self.may_end.acquire().await.unwrap().forget();
            noted().child_ended.push(now());
            return Ok(says("Done."));
        }
        Ok(match request.messages.last().unwrap() {
            Message::User(text) if text.starts_with("[runtime]") => {
                noted().told_end.push(asked);
                says("It has ended.")
            }
            Message::User(_) => {
                noted().called.push(now());
                let args = r#"{"description": "a part", "prompt": "Do it.", "run_in_background": true}"#.to_owned();
                let call = Block::ToolCall { id: CallId(String::new()), name: "subagent".to_owned(), args };
                Reply { blocks: vec![call], ..says("") }
            }
            Message::Tool { text, ok, .. } => {
                assert!(ok, "{text}");
                noted().told_id.push(asked);
                says("It is at work.")
            }
            Message::Assistant(_) => unreachable!("the last word was the model's own"),
        })
    }

    fn context(&self) -> Option<u64> {
        None
    }

    async fn check(&self) -> Result<(), Failure> {
        Ok(())
    }
}

fn says(text: &str) -> Reply {
    let blocks = vec![Block::Text { text: text.to_owned() }];
    Reply { blocks, stop: Stop::Complete, usage: Usage { input: 10, output: 5, cached: 0, estimated: false } }
}

pub fn run() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Fine(Instant::now());
    let player = Arc::new(Player { clock: clock.clone(), may_end: Semaphore::new(0), noted: Mutex::default() });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let settled = runtime.block_on(play(dir.path(), Env::with_clock(Arc::new(clock)), &player));
    let commit = commit(dir.path()).median();
    let noted = player.noted.lock().unwrap();
    let between = |from: &[i64], to: &[i64]| {
        assert_eq!((from.len(), to.len()), (ROUNDS, ROUNDS));
        from.iter().zip(to).map(|(from, to)| (to - from) as f64 / 1e3).collect::<Sample>()
    };
    for (what, sample) in [
        ("a child: asked for, to its id before the model", between(&noted.called, &noted.told_id)),
        ("a child: settled, to its owner's next request", between(&settled, &noted.told_end)),
        ("a child: last word, to its owner's next request", between(&noted.child_ended, &noted.told_end)),
    ] {
        let reference = "one durable commit of bare SQLite";
        Line { what, unit: "ms", here: sample.median(), there: commit, reference, rounds: sample.rounds() }.print();
    }
}

/// Plays all rounds and answers when each task was settled.
async fn play(dir: &std::path::Path, env: Env, player: &Arc<Player>) -> Vec<i64> {
    let mut config = Config { default_model: "player".to_owned(), ..Config::default() };
    config.limits.children = 0;
    let models: BTreeMap<String, Arc<dyn Model>> = BTreeMap::from([("player".to_owned(), player.clone() as _)]);
    let engine = Engine::open_with(&dir.join("data"), config, env, models).await.unwrap();
    let opening =
        Opening { cwd: dir.to_owned(), model: None, mode: Mode::Full, title: None, limits: TreeLimits::default() };
    let root = engine.open_session(opening, "open").await.unwrap();
    let mut ends = Ends::default();
    for round in 0..ROUNDS {
        engine.prompt(&root, "Delegate it.".to_owned(), &format!("prompt {round}")).await.unwrap();
        ends.until(&engine, &root, 2 * round + 1).await;
        player.may_end.add_permits(1);
        ends.until(&engine, &root, 2 * round + 2).await;
    }
    let events = engine.events(&root, 0, usize::MAX).await.unwrap();
    engine.shutdown(PATIENCE).await.unwrap();
    events.iter().filter(|event| matches!(event.event, Event::TaskSettled { .. })).map(|event| event.at).collect()
}

/// How far the session's log was looked at, and how many ends of turns were seen.
#[derive(Default)]
struct Ends {
    cursor: i64,
    turns: usize,
}

impl Ends {
    /// Waits until the session has ended so many turns.
    async fn until(&mut self, engine: &Engine, session: &SessionId, turns: usize) {
        let ended = async {
            while self.turns < turns {
                tokio::time::sleep(Duration::from_millis(5)).await;
                let events = engine.events(session, self.cursor, usize::MAX).await.unwrap();
                self.cursor = events.last().map_or(self.cursor, |event| event.n);
                self.turns += events.iter().filter(|event| matches!(event.event, Event::TurnEnded { .. })).count();
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.expect("a turn does not end");
    }
}
