//! The store: one SQLite file that holds the log and its projections. Only this module and those below it know SQL.
//!
//! One writer thread takes everything that waits, commits once, acknowledges, and then bumps a watch of the last
//! `seq` that carries no data. Readers wake, and page from where they stand on connections that cannot write.

use crate::env::Env;
use crate::error::Result;
use crate::event::{Block, Event, Recorded};
use crate::id::{CallId, SessionId, TaskId};
use crate::view::{SessionView, TaskView, Tokens};
use serde_json::Value;
use std::path::Path;
use tokio::sync::watch;

/// The store, open. Clones share it.
#[derive(Clone)]
pub struct Log {}

/// Events for one session, to be appended together.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The session.
    pub session: SessionId,
    /// A client-minted key: a second append with the same key changes nothing and answers what the first did.
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

/// A session that was at work when the process ended.
#[derive(Clone, Debug)]
pub struct Unfinished {
    /// The session.
    pub session: SessionId,
    /// The step and the partial reply that was checkpointed last, if a reply was streaming.
    pub partial: Option<(u32, Vec<Block>)>,
}

impl Log {
    /// Opens the store in the data folder `dir`, making both when absent, and migrates it. Refuses a store that a
    /// newer version made, a folder that cannot be written and a file that is damaged, each with what to do, and
    /// leaves it untouched.
    pub fn open(dir: &Path, env: &Env) -> Result<Self> {
        let _ = (dir, env);
        unimplemented!()
    }

    /// Appends to one session, durably. Answers the events as recorded.
    pub async fn append(&self, session: &SessionId, events: Vec<Event>) -> Result<Vec<Recorded>> {
        self.write(vec![Entry::new(session, events)]).await
    }

    /// Appends to several sessions in one transaction. Answers all events as recorded, in order. An append to a
    /// session that does not exist (and that the entry does not open) is refused: `unknown_session`. A
    /// `TaskSettled` for a task that is already terminal is refused: `conflict`; nothing of the batch is written.
    pub async fn write(&self, entries: Vec<Entry>) -> Result<Vec<Recorded>> {
        let _ = entries;
        unimplemented!()
    }

    /// Gives the task an id from the durable counter of its kind and appends `TaskStarted` to its owner's log.
    pub async fn start_task(&self, draft: TaskDraft) -> Result<(TaskId, Recorded)> {
        let _ = draft;
        unimplemented!()
    }

    /// Keeps the partial text of a reply that streams, over the one kept before. The next `Answered` or `TurnEnded`
    /// of the session removes it.
    pub async fn checkpoint(&self, session: &SessionId, step: u32, blocks: Vec<Block>) -> Result<()> {
        let _ = (session, step, blocks);
        unimplemented!()
    }

    /// The answer that was kept for a client-minted command key.
    pub async fn answer(&self, key: &str) -> Result<Option<Value>> {
        let _ = key;
        unimplemented!()
    }

    /// Keeps the answer of a command under its client-minted key.
    pub async fn keep_answer(&self, key: &str, answer: Value) -> Result<()> {
        let _ = (key, answer);
        unimplemented!()
    }

    /// Removes these sessions and everything of them. A late write to one is refused.
    pub async fn delete(&self, sessions: Vec<SessionId>) -> Result<()> {
        let _ = sessions;
        unimplemented!()
    }

    /// The `seq` of the last committed event. It carries no data: page from where you stand.
    pub fn watch(&self) -> watch::Receiver<i64> {
        unimplemented!()
    }

    /// Events of all sessions after `seq`, oldest first, at most `limit`.
    pub async fn since(&self, seq: i64, limit: usize) -> Result<Vec<Recorded>> {
        let _ = (seq, limit);
        unimplemented!()
    }

    /// Events of one session after `n`, oldest first, at most `limit`.
    pub async fn events(&self, session: &SessionId, after: i64, limit: usize) -> Result<Vec<Recorded>> {
        let _ = (session, after, limit);
        unimplemented!()
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
        let _ = (session, after, before, limit, newest);
        unimplemented!()
    }

    /// One session, from its projection: `needs_you`, `steerable`, `live_below` and `cost` are left at nothing.
    pub async fn session(&self, id: &SessionId) -> Result<SessionView> {
        let _ = id;
        unimplemented!()
    }

    /// All sessions, or those of one tree, oldest first.
    pub async fn sessions(&self, root: Option<&SessionId>) -> Result<Vec<SessionView>> {
        let _ = root;
        unimplemented!()
    }

    /// One task. `unknown_task` when there is none.
    pub async fn task(&self, id: &TaskId) -> Result<TaskView> {
        let _ = id;
        unimplemented!()
    }

    /// All tasks, or those that one session owns, oldest first.
    pub async fn tasks(&self, owner: Option<&SessionId>) -> Result<Vec<TaskView>> {
        let _ = owner;
        unimplemented!()
    }

    /// The final output of a settled task that has no output log.
    pub async fn task_output(&self, id: &TaskId) -> Result<Option<String>> {
        let _ = id;
        unimplemented!()
    }

    /// The notices that this owner is still to be told, oldest first.
    pub async fn owed(&self, owner: &SessionId) -> Result<Vec<OwedNotice>> {
        let _ = owner;
        unimplemented!()
    }

    /// Tokens of one session, and of it with all sessions below it.
    pub async fn usage(&self, session: &SessionId) -> Result<(Tokens, Tokens)> {
        let _ = session;
        unimplemented!()
    }

    /// Sessions that have an open turn, a call without a result, or a live task: what a crash left.
    pub async fn unfinished(&self) -> Result<Vec<Unfinished>> {
        unimplemented!()
    }

    /// Writes everything that waits, closes the writer, and folds the write-ahead log back. Later writes are refused.
    pub async fn close(&self) -> Result<()> {
        unimplemented!()
    }
}
