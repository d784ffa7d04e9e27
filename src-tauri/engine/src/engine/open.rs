//! Opening a data folder: lock, migrate, end what a crash left, mend every session, and only then let anyone in.

use super::{Engine, Inner, models};
use crate::agent::{Agents, Fence, Gate};
use crate::asks::Asks;
use crate::budget::Budgets;
use crate::config::Config;
use crate::config::bounds::AGENT_REST;
use crate::control::Control;
use crate::engine::lock::FolderLock;
use crate::env::{self, Env};
use crate::error::{Code, Error, Result};
use crate::event::Event;
use crate::files::before::Before;
use crate::keys::{KeyStore, Keys, SystemKeyring, VENDORS};
use crate::llm::Model;
use crate::log::{Entry, Log};
use crate::output::Outputs;
use crate::permission;
use crate::process::{Confinement, Processes, Support, confine};
use crate::scope::Scope;
use crate::subagent::local::Local;
use crate::task::Tasks;
use crate::tool::bash::{self, Bash};
use crate::tool::edit::EditFile;
use crate::tool::files::{FileMemory, ReadFile, WriteFile};
use crate::tool::messages::{ListAgents, SendMessage};
use crate::tool::search::{Glob, Grep};
use crate::tool::subagent::Subagent;
use crate::tool::tasks::{TaskKill, TaskList, TaskOutput};
use crate::tool::{Tool, background::BackgroundCommands};
use crate::transcript::Transcript;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

impl Engine {
    /// Opens the data folder: takes its lock, migrates the store, ends what a crash left, and mends every session.
    /// `held_elsewhere` when another process has it.
    pub async fn open(data: &Path, config: Config) -> Result<Self> {
        Self::open_with(data, config, Env::system(), BTreeMap::new()).await
    }

    /// The same in a world of its own: with `env`'s clock, and with `more` models besides those of the configuration.
    pub async fn open_with(
        data: &Path,
        config: Config,
        env: Env,
        more: BTreeMap<String, Arc<dyn Model>>,
    ) -> Result<Self> {
        Self::open_keyed(data, config, env, more, Arc::new(SystemKeyring)).await
    }

    /// The same with another keyring than the system's.
    pub async fn open_keyed(
        data: &Path,
        config: Config,
        env: Env,
        more: BTreeMap<String, Arc<dyn Model>>,
        keyring: Arc<dyn KeyStore>,
    ) -> Result<Self> {
        Self::open_resting(data, config, env, more, keyring, AGENT_REST).await
    }

    /// The same, and sessions without work stay in memory for `rest`.
    async fn open_resting(
        data: &Path,
        config: Config,
        env: Env,
        more: BTreeMap<String, Arc<dyn Model>>,
        keyring: Arc<dyn KeyStore>,
        rest: Duration,
    ) -> Result<Self> {
        let folder = make_folder(data)?;
        let (lock, held) = FolderLock::take(&folder)?;
        let log = Log::open_alone(&folder, &env, held)?;
        let processes = Processes::masked(log.id(), Arc::new(log.clone()), log.mask().clone());
        let names: Vec<String> = config.models.values().filter_map(|model| model.key_env.clone()).collect();
        let keys = Keys::new(&folder, keyring, log.mask().clone());
        keys.learn(&names).await;
        processes.hide(names);
        processes.hide(VENDORS.iter().map(|name| (*name).to_owned()).collect());
        let found = processes.inquest(config.limits.stop_grace()).await?;
        mend(&log).await?;
        let mut leftovers: Vec<String> = log.found().map(str::to_owned).into_iter().collect();
        if !found.is_empty() {
            leftovers.push(told_left(found.len(), found.iter().map(|(entry, _)| entry.label.as_str())));
        }
        let leftovers = (!leftovers.is_empty()).then(|| leftovers.join(" "));

        let idle = config.limits.idle();
        let mut built: BTreeMap<String, Result<Arc<dyn Model>>> =
            config.models.iter().map(|(name, model)| (name.clone(), models::build(model, name, idle, &keys))).collect();
        built.extend(more.into_iter().map(|(name, model)| (name, Ok(model))));
        let ready: BTreeMap<String, Arc<dyn Model>> =
            built.iter().filter_map(|(name, model)| Some((name.clone(), model.as_ref().ok()?.clone()))).collect();

        let scope = Scope::new();
        let (pulse, _) = watch::channel(0);
        let tasks = Tasks::new(log.clone(), config.limits.clone(), Outputs::new(folder.join("output")));
        let budgets = Budgets::new(env.clone(), log.clone(), config.limits.clone());
        let asks = Asks::new(log.clone());
        let fence = Fence {
            home: env::path("HOME"),
            out_of_reach: [vec![folder.clone()], confine::keyrings()].concat(),
            // Another shell reads some commands in another way than the judgement does.
            confined: bash::is_bash()
                && Support::here().holds(&Confinement::ReadOnly { folder: folder.clone(), out_of_reach: Vec::new() }),
        };
        let before = Before::new(folder.join("before"));
        let key_places =
            fence.home.as_deref().map(|home| permission::keys(&std::fs::canonicalize(home).unwrap_or(home.to_owned())));
        let key_places = key_places.unwrap_or_default();
        let memory = FileMemory::of(fence.out_of_reach.clone(), key_places, log.clone(), before.clone());
        let agents = Agents::new(
            env.clone(),
            log.clone(),
            config.clone(),
            budgets.clone(),
            Gate::new(log.clone(), asks.clone(), budgets.clone(), memory.clone(), fence),
            ready,
            tasks.clone(),
            scope.clone(),
            pulse.clone(),
            rest,
        );
        let spawn = Local::spawn(log.clone(), agents.clone());
        let fork = Local::fork(log.clone(), agents.clone());
        let control = Control::new(
            env.clone(),
            log.clone(),
            budgets.clone(),
            tasks.clone(),
            agents.clone(),
            vec![Arc::new(spawn), Arc::new(fork)],
        );
        agents.equip(tools(&memory, &config, &log, &tasks, &processes, &control));
        let engine = Self(Arc::new(Inner {
            data: folder,
            config,
            env,
            log,
            asks,
            budgets,
            processes,
            tasks,
            agents,
            control,
            memory,
            before,
            models: built,
            scope,
            closed: CancellationToken::new(),
            pulse,
            leftovers,
            secrets: keys,
            keys: Mutex::default(),
            ending: Mutex::default(),
            deleted: Mutex::default(),
            told: Mutex::default(),
            closing: AtomicBool::new(false),
            lock: Mutex::new(Some(lock)),
        }));
        engine.watch_store();
        engine.drop_orphans();
        Ok(engine)
    }
}

fn tools(
    memory: &FileMemory,
    config: &Config,
    log: &Log,
    tasks: &Tasks,
    processes: &Processes,
    control: &Control,
) -> Vec<Arc<dyn Tool>> {
    let grace = config.limits.stop_grace();
    let background = Arc::new(BackgroundCommands::new(tasks.clone(), processes.clone(), grace));
    let mut tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(ReadFile::new(memory.clone())),
        Arc::new(WriteFile::new(memory.clone())),
        Arc::new(EditFile::new(memory.clone())),
        Arc::new(Glob::new(memory.clone())),
        Arc::new(Grep::new(memory.clone())),
        Arc::new(Bash::new(processes.clone(), Some(background), grace, config.limits.idle())),
    ];
    let delegates = config.subagents.iter().map(|(name, instance)| -> Arc<dyn Tool> {
        Arc::new(Subagent::new(name.clone(), instance.clone(), control.clone()))
    });
    tools.extend(delegates);
    let rest: [Arc<dyn Tool>; 5] = [
        Arc::new(SendMessage(control.clone())),
        Arc::new(ListAgents(log.clone())),
        Arc::new(TaskOutput(tasks.clone())),
        Arc::new(TaskList(tasks.clone())),
        Arc::new(TaskKill(tasks.clone())),
    ];
    tools.extend(rest);
    tools
}

/// Completes every log that a crash cut off, all in one transaction.
async fn mend(log: &Log) -> Result<()> {
    let mut entries = Vec::new();
    for unfinished in log.unfinished().await? {
        let events = log.events(&unfinished.session, 0, usize::MAX).await?;
        let mut missing = Transcript::of(&events).mend(unfinished.partial);
        let checkpoint = log.session(&unfinished.session).await?.last_sign_at;
        for event in &mut missing {
            date(log, events.last().map(|last| last.at.max(checkpoint)), event).await?;
        }
        if !missing.is_empty() {
            entries.push(Entry::new(&unfinished.session, missing));
        }
    }
    if entries.is_empty() { Ok(()) } else { log.write(entries).await.map(drop) }
}

/// Says when the turn or task ended that this event of a mend tells the end of: with its last sign in the log, `own` for
/// its session. A child gives its signs in its own log, a command none but those of its owner.
async fn date(log: &Log, own: Option<i64>, event: &mut Event) -> Result<()> {
    match event {
        Event::TurnEnded { last_sign_at, .. } => *last_sign_at = own,
        Event::TaskSettled { task, last_sign_at, .. } => {
            let task = log.task(task).await?;
            *last_sign_at = match &task.child {
                // It may not have come to be.
                Some(child) => match log.session(child).await {
                    Ok(child) => Some(child.last_sign_at.max(task.started_at)),
                    Err(error) if error.code() == Code::UnknownSession => Some(task.started_at),
                    Err(error) => return Err(error),
                },
                None => own,
            };
        }
        _ => {}
    }
    Ok(())
}

fn make_folder(data: &Path) -> Result<std::path::PathBuf> {
    // What agents put out and what people write is nobody else's to read.
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let made = builder.create(data).and_then(|()| data.canonicalize());
    made.map_err(|error| {
        let message = format!(
            "The data folder {} cannot be made ({error}). Give write permission, or choose another with --data.",
            data.display()
        );
        Error::new(Code::Store, message).because(error)
    })
}

/// What people are told of `count` processes that the last run left; the first few are named.
fn told_left<'a>(count: usize, labels: impl Iterator<Item = &'a str>) -> String {
    let names = labels.take(3).collect::<Vec<_>>().join(", ");
    let processes = if count == 1 { "1 process was".to_owned() } else { format!("{count} processes were") };
    let have = if count == 1 { "has" } else { "have" };
    format!("{processes} left by the last run and {have} been ended: {names}.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Opening, Target};
    use crate::event::TaskStatus;
    use crate::event::{Block, Mode, Stop, TreeLimits, Usage};
    use crate::id::{Owner, SessionId};
    use crate::llm::{Failure, Message, Reply, Request, Sink};
    use crate::task::{End, Job, Mailbox, Spec};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// The longest that the test waits; only a safety net.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Answers at once, except to "wait".
    struct Brief;

    #[async_trait::async_trait]
    impl Model for Brief {
        async fn ask(&self, request: &Request, _: &dyn Sink) -> std::result::Result<Reply, Failure> {
            if matches!(request.messages.last(), Some(Message::User(text)) if text.ends_with("wait")) {
                std::future::pending::<()>().await;
            }
            let blocks = vec![Block::Text { text: "well".to_owned() }];
            Ok(Reply { blocks, stop: Stop::Complete, usage: Usage::default() })
        }

        fn context(&self) -> Option<u64> {
            None
        }

        async fn check(&self) -> std::result::Result<(), Failure> {
            Ok(())
        }
    }

    async fn resting(dir: &Path, rest: Duration) -> Engine {
        let config = Config { default_model: "brief".to_owned(), ..Config::default() };
        let models = BTreeMap::from([("brief".to_owned(), Arc::new(Brief) as Arc<dyn Model>)]);
        Engine::open_resting(&dir.join("data"), config, Env::system(), models, Arc::new(SystemKeyring), rest)
            .await
            .unwrap()
    }

    async fn root(engine: &Engine, dir: &Path, key: &str) -> SessionId {
        let opening = Opening {
            cwd: dir.to_owned(),
            model: None,
            mode: Mode::Ask,
            title: Some("t".to_owned()),
            limits: TreeLimits::default(),
        };
        engine.open_session(opening, key).await.unwrap()
    }

    async fn until(holds: impl Fn() -> bool) {
        let wait = async {
            while !holds() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap();
    }

    #[tokio::test]
    async fn a_session_without_work_leaves_memory_and_comes_back_when_it_is_spoken_to() {
        let dir = tempfile::tempdir().unwrap();
        let engine = resting(dir.path(), Duration::from_millis(20)).await;
        for round in 0..5 {
            let root = root(&engine, dir.path(), &format!("open {round}")).await;
            for prompt in ["hello", "wait"] {
                engine.prompt(&root, prompt.to_owned(), &format!("{round} {prompt}")).await.unwrap();
                let target = Target::Turn(root.clone());
                engine.stop(target, None, false, &format!("stop {round} {prompt}")).await.unwrap();
            }
        }
        until(|| engine.0.agents.all().is_empty()).await;
        assert_eq!(engine.0.tasks.owners(), 0);
        let (sessions, _) = engine.tree(None).await.unwrap();
        engine.prompt(&sessions[0].id, "again".to_owned(), "again").await.unwrap();
        engine.shutdown(PATIENCE).await.unwrap();
    }

    #[tokio::test]
    async fn a_session_that_the_person_stopped_does_not_forget_it_at_rest() {
        let dir = tempfile::tempdir().unwrap();
        let engine = resting(dir.path(), Duration::from_millis(20)).await;
        let (stopped, other) = (root(&engine, dir.path(), "1").await, root(&engine, dir.path(), "2").await);
        engine.prompt(&stopped, "wait".to_owned(), "3").await.unwrap();
        engine.stop(Target::Branch(stopped.clone()), None, false, "4").await.unwrap();
        engine.prompt(&other, "hello".to_owned(), "5").await.unwrap();
        // It came to rest later, so the first one's rest is over as well.
        until(|| engine.0.agents.get(&other).is_none()).await;
        assert!(engine.0.agents.get(&stopped).is_some());
        engine.prompt(&stopped, "hello".to_owned(), "6").await.unwrap();
        until(|| engine.0.agents.get(&stopped).is_none()).await;
        engine.shutdown(PATIENCE).await.unwrap();
    }

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Mailbox for Count {
        fn notice_owed(&self) {
            self.0.fetch_add(1, Ordering::AcqRel);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_owner_is_not_put_away_between_the_end_of_its_task_and_the_notice_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let engine = resting(dir.path(), PATIENCE).await;
        let tasks = engine.0.tasks.clone();
        let owner = Owner { session: root(&engine, dir.path(), "1").await, agent: engine.0.env.new_agent() };
        let mail = Arc::new(Count::default());
        tasks.attach(&owner, engine.0.scope.child(), mail.clone());
        for round in 0..100 {
            let (finish, end) = tokio::sync::oneshot::channel();
            let spec = Spec {
                owner: owner.clone(),
                kind: "bash",
                label: "l".to_owned(),
                child: None,
                call: None,
                numbered: CancellationToken::new(),
                levels: 1,
                limit: None,
            };
            let done = async move {
                end.await.unwrap();
                End { status: TaskStatus::Completed, detail: None, output: None }
            };
            let job = Job { done: Box::pin(done), output: Arc::default(), after: Box::new(|| {}) };
            let task = tasks.start(spec, |_| job).await.unwrap();
            let rest = Scope::blocking({
                let (tasks, owner, mail) = (tasks.clone(), owner.clone(), mail.clone());
                move || {
                    while tasks.owns_live(&owner.session) || mail.0.load(Ordering::Acquire) == round {
                        let read = || mail.0.load(Ordering::Acquire) == round;
                        if tasks.detach_idle(&owner, read) {
                            return true;
                        }
                    }
                    false
                }
            });
            let end = async {
                finish.send(()).unwrap();
                tasks.released(&task).await;
            };
            let (lost, ()) = tokio::join!(rest, end);
            assert!(!lost, "round {round}");
        }
        assert_eq!(mail.0.load(Ordering::Acquire), 100);
        engine.shutdown(PATIENCE).await.unwrap();
    }

    #[test]
    fn of_one_process_that_was_left_it_is_spoken_in_the_singular() {
        let told = |labels: &[&str]| told_left(labels.len(), labels.iter().copied());
        assert_eq!(told(&["a"]), "1 process was left by the last run and has been ended: a.");
        let four = "4 processes were left by the last run and have been ended: a, b, c.";
        assert_eq!(told(&["a", "b", "c", "d"]), four);
    }
}
