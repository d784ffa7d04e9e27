//! Opening a data folder: lock, migrate, end what a crash left, mend every session, and only then let anyone in.

use super::{Engine, Inner, models};
use crate::agent::Agents;
use crate::budget::Budgets;
use crate::config::Config;
use crate::config::bounds::AGENT_REST;
use crate::control::Control;
use crate::engine::lock::FolderLock;
use crate::env::Env;
use crate::error::{Code, Error, Result};
use crate::llm::Model;
use crate::log::{Entry, Log};
use crate::output::Outputs;
use crate::process::Processes;
use crate::scope::Scope;
use crate::subagent::local::Local;
use crate::task::Tasks;
use crate::tool::bash::Bash;
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
        Self::open_resting(data, config, env, more, AGENT_REST).await
    }

    /// The same, and sessions without work stay in memory for `rest`.
    async fn open_resting(
        data: &Path,
        config: Config,
        env: Env,
        more: BTreeMap<String, Arc<dyn Model>>,
        rest: Duration,
    ) -> Result<Self> {
        let folder = make_folder(data)?;
        let (lock, held) = FolderLock::take(&folder)?;
        let log = Log::open_alone(&folder, &env, held)?;
        let processes = Processes::new(log.id(), Arc::new(log.clone()));
        processes.hide(config.models.values().filter_map(|model| model.key_env.clone()).collect());
        let found = processes.inquest(config.limits.stop_grace()).await?;
        mend(&log).await?;
        let mut leftovers: Vec<String> = log.found().map(str::to_owned).into_iter().collect();
        if !found.is_empty() {
            let names: Vec<String> = found.iter().take(3).map(|(entry, _)| entry.label.clone()).collect();
            let (n, names) = (found.len(), names.join(", "));
            leftovers.push(format!("{n} processes were left by the last run and have been ended: {names}."));
        }
        let leftovers = (!leftovers.is_empty()).then(|| leftovers.join(" "));

        let idle = config.limits.idle();
        let mut built: BTreeMap<String, Result<Arc<dyn Model>>> =
            config.models.iter().map(|(name, model)| (name.clone(), models::build(model, name, idle))).collect();
        built.extend(more.into_iter().map(|(name, model)| (name, Ok(model))));
        let ready: BTreeMap<String, Arc<dyn Model>> =
            built.iter().filter_map(|(name, model)| Some((name.clone(), model.as_ref().ok()?.clone()))).collect();

        let scope = Scope::new();
        let (pulse, _) = watch::channel(0);
        let tasks = Tasks::new(log.clone(), config.limits.clone(), Outputs::new(folder.join("output")));
        let budgets = Budgets::new(env.clone(), log.clone(), config.limits.clone());
        let agents = Agents::new(
            env.clone(),
            log.clone(),
            config.clone(),
            budgets.clone(),
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
        let memory = FileMemory::new(vec![folder.clone()]);
        agents.equip(tools(&memory, &config, &log, &tasks, &processes, &control));
        let engine = Self(Arc::new(Inner {
            data: folder,
            config,
            env,
            log,
            budgets,
            processes,
            tasks,
            agents,
            control,
            memory,
            models: built,
            scope,
            closed: CancellationToken::new(),
            pulse,
            leftovers,
            keys: Mutex::default(),
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
        let missing = Transcript::of(&events).mend(unfinished.partial);
        if !missing.is_empty() {
            entries.push(Entry::new(&unfinished.session, missing));
        }
    }
    if entries.is_empty() { Ok(()) } else { log.write(entries).await.map(drop) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Opening, Target};
    use crate::event::{Mode, TreeLimits};

    /// The longest that the test waits; only a safety net.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_session_without_work_leaves_memory_and_comes_back_when_it_is_spoken_to() {
        let dir = tempfile::tempdir().unwrap();
        let (data, env, rest) = (dir.path().join("data"), Env::system(), Duration::from_millis(20));
        let engine = Engine::open_resting(&data, Config::default(), env, BTreeMap::new(), rest).await.unwrap();
        let opening = || Opening {
            cwd: dir.path().to_owned(),
            model: None,
            mode: Mode::Ask,
            title: Some("t".to_owned()),
            limits: TreeLimits::default(),
        };
        for round in 0..5 {
            let root = engine.open_session(opening(), &format!("open {round}")).await.unwrap();
            for prompt in 0..3 {
                engine.prompt(&root, "hello".to_owned(), &format!("{round} {prompt}")).await.unwrap();
                let target = Target::Branch(root.clone());
                engine.stop(target, None, false, &format!("stop {round} {prompt}")).await.unwrap();
            }
        }
        let empty = async {
            while !engine.0.agents.all().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, empty).await.unwrap();
        assert_eq!(engine.0.tasks.owners(), 0);
        let (sessions, _) = engine.tree(None).await.unwrap();
        engine.prompt(&sessions[0].id, "again".to_owned(), "again").await.unwrap();
        engine.shutdown(PATIENCE).await.unwrap();
    }
}
