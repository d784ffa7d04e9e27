//! The store: one SQLite file that holds the log and its projections. Only this module and those below it know SQL.
//!
//! One writer thread takes everything that waits, commits once, bumps a watch of the last `seq` that carries no data,
//! and acknowledges. Readers wake, and page from where they stand on connections that cannot write.

mod append;
mod asks;
mod fault;
mod files;
pub mod held;
mod ledger;
mod masked;
mod open;
mod project;
mod read;
mod reserve;
mod writer;

use crate::config::bounds::KEPT_ANSWERS;
use crate::env::Env;
use crate::error::{Code, Error, Result};
use crate::event::{Block, Event, Recorded, TreeLimits};
use crate::id::{CallId, SessionId, TaskId};
use crate::mask::Mask;
use crate::scope::Scope;
use crate::view::{SessionView, TaskView, Tokens};
pub use asks::AskDraft;
use fault::{Fault, Loss};
use held::Held;
use read::Readers;
use rusqlite::{Connection, OptionalExtension};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use writer::{Order, Writer, Writing};

/// The store, open. Clones share it. When the last one is dropped, what was sent is still written.
#[derive(Clone)]
pub struct Log {
    shared: Arc<Shared>,
}

struct Shared {
    id: String,
    mask: Mask,
    path: PathBuf,
    found: Option<String>,
    orders: mpsc::Sender<Order>,
    seq: watch::Receiver<i64>,
    readers: Arc<Readers>,
    /// Why the last write failed, for people; none when it did not.
    trouble: watch::Sender<Option<String>>,
    /// Fires when the store is not at its path any more.
    lost: CancellationToken,
    loss: Arc<OnceLock<Loss>>,
    /// Set by a close: writes do not wait for a lock any longer.
    closing: Arc<AtomicBool>,
}

/// How long somebody who need not wait for a write goes on to, while the store takes none.
const TROUBLED: Duration = Duration::from_millis(300);

/// Events for one session, to be appended together.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The session.
    pub session: SessionId,
    /// A client-minted key: a second write with the same key, as a whole, changes nothing and answers what the first
    /// did.
    pub key: Option<String>,
    /// What happened, in order.
    pub events: Vec<Event>,
}

impl Entry {
    /// Events without a key.
    pub fn new(session: &SessionId, events: Vec<Event>) -> Self {
        Self { session: session.clone(), key: None, events }
    }
}

/// What starts a task: everything of `TaskStarted` but the id, which the store gives.
#[derive(Clone, Debug)]
pub struct TaskDraft {
    /// The session that owns it.
    pub owner: SessionId,
    /// `bash` or `subagent`.
    pub kind: String,
    /// What it does, for people.
    pub label: String,
    /// The child session that it activates.
    pub child: Option<SessionId>,
    /// The tool call that started it.
    pub call: Option<CallId>,
}

/// A notice that an owner has not been told yet.
#[derive(Clone, Debug, PartialEq)]
pub struct OwedNotice {
    /// The `n` of the `TaskSettled` in the owner's log.
    pub settled: i64,
    /// The task as it ended.
    pub task: TaskView,
}

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gone {
    /// The sessions.
    pub sessions: Vec<SessionId>,
    /// The tasks that they owned.
    pub tasks: Vec<TaskId>,
}

/// A session that was at work when the process ended.
#[derive(Clone, Debug)]
pub struct Unfinished {
    /// The session.
    pub session: SessionId,
    /// The step and the partial reply that was checkpointed last, if a reply was streaming.
    pub partial: Option<(u32, Vec<Block>)>,
}

impl Log {
    /// The name of the store's file in the data folder.
    pub const FILE: &str = "coppice.db";

    /// Opens the store in the data folder `dir`, making both when absent, and migrates it. Refuses a store that a
    /// newer version made, a folder that cannot be written and a file that is damaged, each with what to do, and
    /// leaves it untouched.
    pub fn open(dir: &Path, env: &Env) -> Result<Self> {
        Self::open_with(dir, env, Held::default(), false)
    }

    /// The same, to be the only one that writes: it takes the lease on the store, which ends every earlier one, also
    /// where locks on files do not hold. And these files count as parts of it: when one of them is not at its path any
    /// more, the store takes no writes, as when its own file is not.
    pub fn open_alone(dir: &Path, env: &Env, held: Held) -> Result<Self> {
        Self::open_with(dir, env, held, true)
    }

    fn open_with(dir: &Path, env: &Env, mut held: Held, alone: bool) -> Result<Self> {
        let path = dir.join(Self::FILE);
        let open = || open::writer(&path, &env.new_session().0);
        let open::Opened { sql, id, found } = match open() {
            Err(_) if alone && reserve::give_up(&path) => open()?,
            opened => opened?,
        };
        if alone {
            reserve::take(&path);
        }
        let last = writer::last_seq(&sql).map_err(|error| Fault::Sql(error).told(&path))?;
        let (orders, received) = mpsc::channel();
        let (published, seq) = watch::channel(last);
        let gate = writer::Gate::default();
        held.add(&path, &std::fs::metadata(&path).map_err(|error| fault::refused(&path, error))?);
        let taken = alone.then(|| writer::take_lease(&sql)).transpose();
        let lease = taken.map_err(|error| Fault::Sql(error).told(&path))?;
        let (trouble, lost, loss) = (watch::Sender::new(None), CancellationToken::new(), Arc::default());
        let closing = Arc::new(AtomicBool::new(false));
        let mask = Mask::default();
        let writer = Writer {
            sql,
            mask: mask.clone(),
            path: path.clone(),
            env: env.clone(),
            orders: received,
            seq: published,
            gate: gate.clone(),
            held: held.clone(),
            trouble: trouble.clone(),
            lost: lost.clone(),
            loss: Arc::clone(&loss),
            lease,
            closing: closing.clone(),
        };
        thread::Builder::new()
            .name("coppice-log".to_owned())
            .spawn(move || writer.serve())
            .map_err(|error| Error::new(Code::Store, "The store's writer could not be started.").because(error))?;
        let readers = Arc::new(Readers::new(path.clone(), gate, held));
        let shared = Shared { id, mask, path, found, orders, seq, readers, trouble, lost, loss, closing };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// What people must know of how the store was found; none when all was well.
    pub fn found(&self) -> Option<&str> {
        self.shared.found.as_deref()
    }

    /// The store's id: random, made once, the same for as long as the store lives.
    pub fn id(&self) -> &str {
        &self.shared.id
    }

    /// What takes secrets out of all that is written here. Keys that it is told of are taken out from then on.
    pub fn mask(&self) -> &Mask {
        &self.shared.mask
    }

    /// The store's file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Appends to one session, durably. Answers the events as recorded.
    pub async fn append(&self, session: &SessionId, events: Vec<Event>) -> Result<Vec<Recorded>> {
        self.write(vec![Entry::new(session, events)]).await
    }

    /// Appends to several sessions in one transaction. Answers all events as recorded, in order. An append to a
    /// session that does not exist (and that the entry does not open) is refused: `unknown_session`. A
    /// `TaskStopping` or `TaskSettled` for a task that is already terminal is refused: `conflict`; nothing of the batch
    /// is written.
    /// Writes happen in the order of these calls, also those that are not awaited yet or never.
    pub fn write(&self, entries: Vec<Entry>) -> impl Future<Output = Result<Vec<Recorded>>> + Send {
        self.submit(move |writing| append::entries(writing, &entries))
    }

    /// Gives the task an id from the durable counter of its kind and appends `TaskStarted` to its owner's log. Tasks
    /// are numbered in the order of these calls, also of those that are not awaited yet.
    pub fn start_task(&self, draft: TaskDraft) -> impl Future<Output = Result<(TaskId, Recorded)>> + Send {
        self.submit(move |writing| append::start_task(writing, &draft))
    }

    /// Keeps the partial text of a reply that streams, over the one kept before. The next `Answered` or `TurnEnded`
    /// of the session removes it. One that comes too late, when that step no longer waits for its reply, is not kept.
    pub async fn checkpoint(&self, session: &SessionId, step: u32, blocks: Vec<Block>) -> Result<()> {
        let session = session.clone();
        self.submit(move |writing| append::checkpoint(writing, &session, step, &blocks)).await
    }

    /// What the write with this client-minted key appended; nothing when there was none.
    pub async fn written(&self, key: &str) -> Result<Vec<Recorded>> {
        let key = key.to_owned();
        self.ask(move |sql| Ok(append::written_under(sql, &key)?.unwrap_or_default())).await
    }

    /// The answer that was kept for a client-minted command key.
    pub async fn answer(&self, key: &str) -> Result<Option<Value>> {
        let key = key.to_owned();
        self.ask(move |sql| {
            let answer: Option<String> = sql
                .prepare_cached("SELECT answer FROM command WHERE key = ?1")?
                .query_row([&key], |row| row.get(0))
                .optional()?;
            Ok(answer.map(|answer| serde_json::from_str(&answer)).transpose()?)
        })
        .await
    }

    /// Keeps the answer of a command under its client-minted key, and the last [`KEPT_ANSWERS`] in all.
    pub async fn keep_answer(&self, key: &str, mut answer: Value) -> Result<()> {
        self.shared.mask.value(&mut answer);
        let (key, answer) = (key.to_owned(), answer.to_string());
        self.submit(move |writing| {
            writing
                .sql
                .prepare_cached("INSERT OR IGNORE INTO command (key, answer) VALUES (?1, ?2)")?
                .execute([&key, &answer])?;
            writing
                .sql
                .prepare_cached("DELETE FROM command WHERE rowid <= (SELECT max(rowid) FROM command) - ?1")?
                .execute([KEPT_ANSWERS])?;
            Ok(())
        })
        .await
    }

    /// Removes these sessions, all below them and everything of them, in one transaction. A late write to one is refused.
    pub async fn delete(&self, sessions: Vec<SessionId>) -> Result<Gone> {
        self.submit(move |writing| append::delete(writing, &sessions)).await
    }

    /// The `seq` of the last committed event. It carries no data: page from where you stand. A deletion wakes it
    /// without a new `seq`. It ends with the store.
    pub fn watch(&self) -> watch::Receiver<i64> {
        self.shared.seq.clone()
    }

    /// Waits for a write for as long as the store takes writes. None when it takes none for now: the write is on its
    /// way then, and is done or refused without anybody who waits.
    pub async fn unless_troubled<T>(&self, write: impl Future<Output = Result<T>>) -> Option<Result<T>> {
        let mut trouble = self.trouble();
        let troubled = async {
            // The sender lives in this very log, so the wait cannot fail.
            drop(trouble.wait_for(Option::is_some).await);
            tokio::time::sleep(TROUBLED).await;
        };
        tokio::select! {
            biased;
            written = write => Some(written),
            () = troubled => None,
        }
    }

    /// Why nothing can be written now, in words for people; none while all is well.
    pub fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.shared.trouble.subscribe()
    }

    /// Fires when the store is not this process's any more: from then on every write is refused with what
    /// [`Log::check_held`] says.
    pub fn lost(&self) -> &CancellationToken {
        &self.shared.lost
    }

    /// `gone` when the store was seen not to be at its path any more, `held_elsewhere` when another process has taken
    /// its lease.
    pub fn check_held(&self) -> Result<()> {
        match self.shared.loss.get() {
            Some(loss) => Err(fault::lost(&self.shared.path, *loss)),
            None => Ok(()),
        }
    }

    /// Events of all sessions after `seq`, oldest first, at most `limit`.
    pub async fn since(&self, seq: i64, limit: usize) -> Result<Vec<Recorded>> {
        self.ask(move |sql| read::since(sql, seq, limit)).await
    }

    /// Events of one session after `n`, oldest first, at most `limit`.
    pub async fn events(&self, session: &SessionId, after: i64, limit: usize) -> Result<Vec<Recorded>> {
        let session = session.clone();
        self.ask(move |sql| read::events(sql, &session, after, limit)).await
    }

    /// The events that give rows (those for which [`crate::view::rows::gives_rows`] holds) with `n` between `after`
    /// and `before`, both exclusive: the newest `limit` of them when `newest`, else the oldest; in both cases in
    /// ascending order. With each come the events that complete it ([`Event::about`]), in order.
    pub async fn row_events(
        &self,
        session: &SessionId,
        after: i64,
        before: i64,
        limit: usize,
        newest: bool,
    ) -> Result<Vec<(Recorded, Vec<Recorded>)>> {
        let session = session.clone();
        self.ask(move |sql| read::row_events(sql, &session, after, before, limit, newest)).await
    }

    /// One session, from its projection: `needs_you`, `steerable`, `live_below` and `cost` are left at nothing.
    pub async fn session(&self, id: &SessionId) -> Result<SessionView> {
        let id = id.clone();
        self.ask(move |sql| read::one_session(sql, &id)).await
    }

    /// All sessions, or those of one tree, oldest first.
    pub async fn sessions(&self, root: Option<&SessionId>) -> Result<Vec<SessionView>> {
        let root = root.cloned();
        self.ask(move |sql| read::sessions(sql, root.as_ref())).await
    }

    /// The sessions below the root of a tree.
    pub async fn children(&self, root: &SessionId) -> Result<Vec<SessionId>> {
        let root = root.clone();
        self.ask(move |sql| read::children(sql, &root)).await
    }

    /// One task. `unknown_task` when there is none.
    pub async fn task(&self, id: &TaskId) -> Result<TaskView> {
        let id = id.clone();
        self.ask(move |sql| read::task(sql, &id)).await
    }

    /// All tasks, or those that one session owns, oldest first.
    pub async fn tasks(&self, owner: Option<&SessionId>) -> Result<Vec<TaskView>> {
        let owner = owner.cloned();
        self.ask(move |sql| read::tasks(sql, owner.as_ref())).await
    }

    /// Those of these tasks that are not in the store.
    pub async fn missing_tasks(&self, tasks: Vec<TaskId>) -> Result<Vec<TaskId>> {
        self.ask(move |sql| read::missing_tasks(sql, tasks)).await
    }

    /// How many messages stand in a session and all below it: those to it, and the answers of its model.
    pub async fn messages(&self, session: &SessionId) -> Result<u32> {
        let session = session.clone();
        self.ask(move |sql| read::messages(sql, &session)).await
    }

    /// All tasks that have not ended, oldest first.
    pub async fn live_tasks(&self) -> Result<Vec<TaskView>> {
        self.ask(read::live_tasks).await
    }

    /// The final output of a settled task that has no output log.
    pub async fn task_output(&self, id: &TaskId) -> Result<Option<String>> {
        let id = id.clone();
        self.ask(move |sql| read::task_output(sql, &id)).await
    }

    /// The sessions of the tree of a session, all tasks that have not ended, and the notices that it is
    /// owed, all of one moment.
    pub async fn standing(&self, id: &SessionId) -> Result<(Vec<SessionView>, Vec<TaskView>, Vec<OwedNotice>)> {
        let id = id.clone();
        self.ask(move |sql| {
            let root = read::one_session(sql, &id)?.root;
            Ok((read::sessions(sql, Some(&root))?, read::live_tasks(sql)?, read::owed(sql, &id)?))
        })
        .await
    }

    /// The notices that this owner is still to be told, oldest first.
    pub async fn owed(&self, owner: &SessionId) -> Result<Vec<OwedNotice>> {
        let owner = owner.clone();
        self.ask(move |sql| read::owed(sql, &owner)).await
    }

    /// What the model of this session is still to be told, oldest first: the `n` and the words of each `Noted`.
    pub async fn untold(&self, session: &SessionId) -> Result<Vec<(i64, String)>> {
        let session = session.clone();
        self.ask(move |sql| files::untold(sql, &session)).await
    }

    /// The changes of files in the tree of this root, and what took them back: its `FileChanging` and `Undone`, in
    /// order.
    pub async fn file_changes(&self, root: &SessionId) -> Result<Vec<Recorded>> {
        let root = root.clone();
        self.ask(move |sql| files::changes(sql, &root)).await
    }

    /// What the sessions of the tree of this root saw and wrote of files, oldest first: the fact `file` of the newest
    /// [`RECALLED`] results of their tools, with who and when.
    ///
    /// [`RECALLED`]: crate::config::bounds::RECALLED
    pub async fn file_facts(&self, root: &SessionId) -> Result<Vec<(SessionId, i64, Value)>> {
        let root = root.clone();
        self.ask(move |sql| files::facts(sql, &root)).await
    }

    /// Those of these sessions that are not in the store.
    pub async fn missing_sessions(&self, sessions: Vec<SessionId>) -> Result<Vec<SessionId>> {
        self.ask(move |sql| files::missing_sessions(sql, sessions)).await
    }

    /// Tokens of one session, and of it with all sessions below it.
    pub async fn usage(&self, session: &SessionId) -> Result<(Tokens, Tokens)> {
        let session = session.clone();
        self.ask(move |sql| read::usage(sql, &session)).await
    }

    /// The limits that a tree was given, oldest first, and how long its turns had run when the last of them ended, in
    /// milliseconds.
    pub async fn budget(&self, root: &SessionId) -> Result<(Vec<TreeLimits>, i64)> {
        let root = root.clone();
        self.ask(move |sql| read::budget(sql, &root)).await
    }

    /// How many turns of a session have ended, and the `n` of the last one's end.
    pub async fn ended_turns(&self, session: &SessionId) -> Result<(u32, i64)> {
        let session = session.clone();
        self.ask(move |sql| read::ended_turns(sql, &session)).await
    }

    /// Sessions that have an open turn, a call without a result, a live task, or a message of which nobody knows what
    /// becomes of it: what a crash or a quit left.
    pub async fn unfinished(&self) -> Result<Vec<Unfinished>> {
        self.ask(read::unfinished).await
    }

    /// Drops everything that is folded from the log and makes it anew.
    pub async fn rebuild(&self) -> Result<()> {
        self.submit(|writing| {
            writing.wake.set(true);
            project::rebuild(writing.sql)
        })
        .await
    }

    /// Writes everything that waits, closes the writer, and folds the write-ahead log back. Later writes are refused,
    /// and so is what waits for another program to let go of the store.
    pub async fn close(&self) -> Result<()> {
        let (told, closed) = oneshot::channel();
        self.shared.readers.release();
        self.shared.closing.store(true, Ordering::Release);
        // When the writer is gone already, the store is closed.
        if self.shared.orders.send(Order::Close(told)).is_ok() {
            closed.await.unwrap_or_default();
        }
        Ok(())
    }

    /// Has the writer do this in a transaction; the future waits until it is committed.
    fn submit<T, F>(&self, work: F) -> impl Future<Output = Result<T>> + Send
    where
        T: Send + 'static,
        F: FnMut(&Writing) -> Result<T, Fault> + Send + 'static,
    {
        let closed = || Error::new(Code::ShuttingDown, "Coppice is shutting down; this was not saved.");
        let (job, told) = writer::job(work);
        // Sent here and not when it is awaited: that is what puts writes in order.
        let sent = self.shared.orders.send(Order::Do(job));
        async move {
            sent.map_err(|_| closed())?;
            self.told(Scope::answered(told).await.ok_or_else(closed)?)
        }
    }

    /// What a write came to; whether the store takes writes is noted by the way.
    fn told<T>(&self, done: Result<T>) -> Result<T> {
        let trouble = match &done {
            // The last word: the writer has noted it.
            _ if self.shared.lost.is_cancelled() => return done,
            Err(error) if error.code() == Code::Store => Some(error.message().to_owned()),
            // A write that was refused for what it says has told nothing about the store.
            Err(_) => return done,
            Ok(_) => None,
        };
        self.shared.trouble.send_if_modified(|now| {
            let changed = *now != trouble;
            *now = trouble;
            changed
        });
        done
    }

    async fn ask<T, F>(&self, question: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        self.shared.readers.ask(question).await
    }
}
