//! The laboratory of the engine's tests: the real engine on a real store in a folder of its own, with a model that
//! plays what a test writes down, and gates at which it waits until the test opens them.

use crate::laws::laws_at_work;
use async_trait::async_trait;
use coppice_engine::config::Config;
use coppice_engine::engine::{Engine, Opening};
use coppice_engine::env::{Clock, Env};
use coppice_engine::event::{Block, Event, Mode, Recorded, Stop, TreeLimits, TurnEnd, Usage};
use coppice_engine::id::{CallId, SessionId, TaskId};
use coppice_engine::llm::{Delta, Failure, FailureKind, Message, Model, Reply, Request, Sink};
use coppice_engine::log::Log;
use coppice_engine::view::{SessionState, SessionView, TaskView};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::sync::watch;

/// The longest that anything in a test may take; only a safety net.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// One thing that the scripted model does in a step.
#[derive(Clone, Debug)]
pub enum Act {
    Say(String),
    Call(String, Value),
    RawCall(String, String),
    Gate(String),
    Fail(FailureKind, String),
    End(Stop),
}

pub fn say(text: &str) -> Act {
    Act::Say(text.to_owned())
}

pub fn call(tool: &str, args: Value) -> Act {
    Act::Call(tool.to_owned(), args)
}

pub fn gate(name: &str) -> Act {
    Act::Gate(name.to_owned())
}

/// A background delegation.
pub fn delegate(label: &str, prompt: &str) -> Act {
    call("subagent", serde_json::json!({ "description": label, "prompt": prompt, "run_in_background": true }))
}

type Steps = Vec<Vec<Act>>;

/// A model that plays, for each session label, the steps that a test wrote down.
pub struct Scripted {
    steps: Mutex<HashMap<String, Steps>>,
    taken: Mutex<HashMap<SessionId, usize>>,
    requests: Mutex<Vec<Request>>,
    open: watch::Sender<HashSet<String>>,
    reached: watch::Sender<HashSet<String>>,
}

#[async_trait]
impl Model for Scripted {
    async fn ask(&self, request: &Request, sink: &dyn Sink) -> Result<Reply, Failure> {
        self.requests.lock().unwrap().push(request.clone());
        let label = if request.depth == 0 { "root" } else { request.label.as_str() };
        let number = {
            let mut taken = self.taken.lock().unwrap();
            let number = taken.entry(request.session.clone()).or_default();
            *number += 1;
            *number - 1
        };
        let acts = self.steps.lock().unwrap().get(label).and_then(|steps| steps.get(number).cloned());
        let acts = acts.unwrap_or_else(|| vec![say("done")]);
        let mut blocks = Vec::new();
        let mut stop = Stop::Complete;
        let usage = Usage { input: 10, output: 5, cached: 0, estimated: false };
        for act in acts {
            let index = blocks.len();
            match act {
                Act::Say(text) => {
                    sink.delta(Delta::Text { index, text: text.clone() });
                    blocks.push(Block::Text { text });
                }
                Act::Call(name, args) => {
                    let id = CallId(String::new());
                    blocks.push(Block::ToolCall { id, name, args: fill(&args.to_string(), &request.messages) });
                }
                Act::RawCall(name, args) => blocks.push(Block::ToolCall { id: CallId(String::new()), name, args }),
                Act::Gate(name) => {
                    self.reached.send_modify(|reached| {
                        reached.insert(name.clone());
                    });
                    let mut open = self.open.subscribe();
                    open.wait_for(|open| open.contains(&name)).await.unwrap();
                }
                Act::Fail(kind, message) => return Err(Failure::new(kind, message)),
                Act::End(end) => stop = end,
            }
        }
        Ok(Reply { blocks, stop, usage })
    }

    fn context(&self) -> Option<u64> {
        None
    }

    async fn check(&self) -> Result<(), Failure> {
        Ok(())
    }
}

/// Puts ids from earlier tool results into arguments: `$task0` is the first task id that was told, `$child0` the
/// first child.
fn fill(args: &str, messages: &[Message]) -> String {
    let mut filled = args.to_owned();
    let (mut tasks, mut children) = (0, 0);
    for message in messages {
        let Message::Tool { text, .. } = message else { continue };
        let Some(rest) = text.strip_prefix("Started task ") else { continue };
        let task = rest.split_whitespace().next().unwrap();
        filled = filled.replace(&format!("$task{tasks}"), task);
        tasks += 1;
        if let Some((_, child)) = rest.split_once("(child ") {
            filled = filled.replace(&format!("$child{children}"), child.split(')').next().unwrap());
            children += 1;
        }
    }
    filled
}

/// A clock that runs like the real one, and that a test can put forward.
struct LabClock {
    started: Instant,
    /// Milliseconds that have passed beyond that, and those that passed while the machine slept.
    ahead: AtomicI64,
    slept: AtomicI64,
}

impl Default for LabClock {
    fn default() -> Self {
        Self { started: Instant::now(), ahead: AtomicI64::new(0), slept: AtomicI64::new(0) }
    }
}

impl Clock for LabClock {
    fn now_ms(&self) -> i64 {
        1_700_000_000_000 + self.uptime_ms() + self.slept.load(Ordering::Relaxed)
    }

    fn uptime_ms(&self) -> i64 {
        self.started.elapsed().as_millis() as i64 + self.ahead.load(Ordering::Relaxed)
    }
}

pub struct Lab {
    pub engine: Engine,
    pub model: Arc<Scripted>,
    pub cwd: PathBuf,
    config: Config,
    env: Env,
    clock: Arc<LabClock>,
    /// How often it crashed: each time it goes on with another copy of its store.
    crashes: usize,
    store: TempDir,
    _dir: TempDir,
}

/// A folder for a store: in memory, where there is much room. Most of the time of a test would else be that of the disk,
/// which has tests of its own.
fn in_memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let roomy = coppice_engine::env::free(memory).is_some_and(|free| free > 1 << 30);
    let folder = roomy.then(|| TempDir::new_in(memory).ok()).flatten();
    folder.unwrap_or_else(|| TempDir::new().unwrap())
}

impl Lab {
    pub async fn new() -> Self {
        Self::with(Config::default()).await
    }

    pub async fn with(config: Config) -> Self {
        let clock = Arc::new(LabClock::default());
        let lab = Self::in_world(config, Env::with_clock(clock.clone())).await;
        Self { clock, ..lab }
    }

    /// In a world with a clock of its own, which only its owner puts forward.
    pub async fn in_world(config: Config, env: Env) -> Self {
        Self::placed(TempDir::new().unwrap(), in_memory(), config, env).await
    }

    /// In a folder of this one.
    pub async fn on(disk: &Path, config: Config) -> Self {
        let clock = Arc::new(LabClock::default());
        let [dir, store] = [(); 2].map(|()| TempDir::new_in(disk).unwrap());
        let lab = Self::placed(dir, store, config, Env::with_clock(clock.clone())).await;
        Self { clock, ..lab }
    }

    async fn placed(dir: TempDir, store: TempDir, mut config: Config, env: Env) -> Self {
        let cwd = dir.path().join("folder");
        std::fs::create_dir(&cwd).unwrap();
        config.default_model = "scripted".to_owned();
        config.limits.stop_grace_ms = 300;
        let model = Arc::new(Scripted {
            steps: Mutex::default(),
            taken: Mutex::default(),
            requests: Mutex::default(),
            open: watch::channel(HashSet::new()).0,
            reached: watch::channel(HashSet::new()).0,
        });
        let engine = open(&store.path().join("data"), config.clone(), &env, &model).await;
        Self { engine, model, cwd, config, env, clock: Arc::default(), crashes: 0, store, _dir: dir }
    }

    /// The time of day here.
    pub fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// Lets time pass.
    pub fn pass(&self, time: Duration) {
        self.clock.ahead.fetch_add(time.as_millis() as i64, Ordering::Relaxed);
    }

    /// Lets time pass while the machine sleeps.
    pub fn sleep(&self, time: Duration) {
        self.clock.slept.fetch_add(time.as_millis() as i64, Ordering::Relaxed);
    }

    /// Closes the engine in order and opens it again.
    pub async fn restart(&mut self) {
        self.engine.shutdown(PATIENCE).await.unwrap();
        self.reopen().await;
    }

    /// Opens the engine again after it was closed.
    pub async fn reopen(&mut self) {
        self.engine = open(&self.data(), self.config.clone(), &self.env, &self.model).await;
    }

    /// Closes the engine and opens it with a configuration that has lost the model of its sessions.
    pub async fn restart_without_model(&mut self) {
        self.engine.shutdown(PATIENCE).await.unwrap();
        self.engine = Engine::open(&self.data(), Config::default()).await.unwrap();
    }

    /// Goes on with the store as it stands at this moment, as after a crash: what the engine that runs comes to from
    /// here on is lost.
    pub async fn crash(&mut self) {
        let kept = self.data().join("before");
        let store = rusqlite::Connection::open(self.data().join(Log::FILE)).unwrap();
        self.crashes += 1;
        let data = self.data();
        std::fs::create_dir(&data).unwrap();
        copy(&kept, &data.join("before"));
        store.execute("VACUUM INTO ?1", [data.join(Log::FILE).to_str().unwrap()]).unwrap();
        drop(store);
        self.engine.shutdown(PATIENCE).await.unwrap();
        self.reopen().await;
    }

    pub fn data(&self) -> PathBuf {
        let name = if self.crashes == 0 { "data".to_owned() } else { format!("data-{}", self.crashes) };
        self.store.path().join(name)
    }

    pub fn script(&self, label: &str, steps: Steps) {
        self.model.steps.lock().unwrap().insert(label.to_owned(), steps);
    }

    /// Lets a session's steps begin anew, for a script that was put in later.
    pub fn replay(&self, session: &SessionId) {
        self.model.taken.lock().unwrap().remove(session);
    }

    pub fn open_gate(&self, name: &str) {
        self.model.open.send_modify(|open| {
            open.insert(name.to_owned());
        });
    }

    pub async fn reached(&self, name: &str) {
        let mut reached = self.model.reached.subscribe();
        within(reached.wait_for(|reached| reached.contains(name))).await.unwrap();
    }

    pub async fn root(&self) -> SessionId {
        self.root_with(TreeLimits::default()).await
    }

    /// A root with limits of its own.
    pub async fn root_with(&self, limits: TreeLimits) -> SessionId {
        self.opened(Mode::Full, limits).await
    }

    /// A root that may do this without asking.
    pub async fn root_in(&self, mode: Mode) -> SessionId {
        self.opened(mode, TreeLimits::default()).await
    }

    async fn opened(&self, mode: Mode, limits: TreeLimits) -> SessionId {
        let opening = Opening { cwd: self.cwd.clone(), model: None, mode, title: None, limits };
        self.engine.open_session(opening, &key()).await.unwrap()
    }

    /// A root that was given a prompt.
    pub async fn prompted(&self, text: &str) -> SessionId {
        let root = self.root().await;
        self.engine.prompt(&root, text.to_owned(), &key()).await.unwrap();
        root
    }

    /// Waits until the session and all below it is at rest. Until then no law of the log may have been broken.
    pub async fn rest(&self, session: &SessionId) -> SessionView {
        let view = within(self.engine.wait_session(session, PATIENCE)).await.unwrap();
        // Running out of time is an answer too, and not the one that is wanted here.
        let live = [SessionState::Starting, SessionState::Running, SessionState::Stopping];
        assert!(view.live_below == 0 && !live.contains(&view.state), "it is not at rest: {view:?}");
        let broken = laws_at_work(&self.engine.since(0, 100_000).await.unwrap());
        assert!(broken.is_empty(), "{broken:#?}");
        view
    }

    pub async fn events(&self, session: &SessionId) -> Vec<Recorded> {
        self.engine.events(session, 0, 100_000).await.unwrap()
    }

    /// How the turns of a session ended, oldest first.
    pub async fn turn_ends(&self, session: &SessionId) -> Vec<TurnEnd> {
        let end = |recorded: Recorded| match recorded.event {
            Event::TurnEnded { end, .. } => Some(end),
            _ => None,
        };
        self.events(session).await.into_iter().filter_map(end).collect()
    }

    /// Waits until the log of a session holds an event.
    pub async fn until(&self, session: &SessionId, found: impl Fn(&Event) -> bool) {
        let wait = async {
            let mut follow = self.engine.follow(None, None).await.unwrap();
            while !self.events(session).await.iter().any(|recorded| found(&recorded.event)) {
                follow.next().await.unwrap().unwrap();
            }
        };
        within(wait).await;
    }

    pub async fn tasks(&self) -> Vec<TaskView> {
        self.engine.tasks(None).await.unwrap()
    }

    /// Waits until a number of tasks exist.
    pub async fn until_tasks(&self, count: usize) -> Vec<TaskView> {
        let wait = async {
            let mut follow = self.engine.follow(None, None).await.unwrap();
            loop {
                let tasks = self.tasks().await;
                if tasks.len() >= count {
                    return tasks;
                }
                follow.next().await.unwrap().unwrap();
            }
        };
        within(wait).await
    }

    pub async fn child(&self, label: &str) -> SessionView {
        let (sessions, _) = self.engine.tree(None).await.unwrap();
        sessions.into_iter().find(|session| session.title == label).unwrap()
    }

    /// The requests that the model saw of a session, oldest first.
    pub fn requests(&self, session: &SessionId) -> Vec<Request> {
        self.model.requests.lock().unwrap().iter().filter(|request| request.session == *session).cloned().collect()
    }
}

fn copy(from: &Path, to: &Path) {
    let Ok(entries) = std::fs::read_dir(from) else { return };
    std::fs::create_dir(to).unwrap();
    for entry in entries {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(from, to).unwrap();
        }
    }
}

async fn open(data: &Path, config: Config, env: &Env, model: &Arc<Scripted>) -> Engine {
    let models: BTreeMap<String, Arc<dyn Model>> =
        BTreeMap::from([("scripted".to_owned(), model.clone() as Arc<dyn Model>)]);
    Engine::open_with(data, config, env.clone(), models).await.unwrap()
}

/// A fresh command key.
pub fn key() -> String {
    use std::sync::atomic::AtomicU64;
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("key-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

pub async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("it took too long")
}

/// What was said to the model in the user's place.
pub fn user_texts(request: &Request) -> Vec<&str> {
    let user = |message: &'_ Message| matches!(message, Message::User(_));
    request
        .messages
        .iter()
        .filter(|message| user(message))
        .map(|message| match message {
            Message::User(text) => text.as_str(),
            _ => unreachable!(),
        })
        .collect()
}

/// The results that the model was given, as `(ok, text)`.
pub fn results(request: &Request) -> Vec<(bool, String)> {
    let result = |message: &Message| match message {
        Message::Tool { ok, text, .. } => Some((*ok, text.clone())),
        _ => None,
    };
    request.messages.iter().filter_map(result).collect()
}

pub fn task(id: &str) -> TaskId {
    TaskId::from(id)
}
