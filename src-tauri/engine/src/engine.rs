//! The composition root: builds the parts, wires them, and offers what a window or a terminal needs.

use crate::config::{Config, Limits, Protocol};
use crate::error::Result;
use crate::event::{Mode, Receipt, Recorded, Route};
use crate::id::{SessionId, TaskId};
use crate::output::Slice;
use crate::view::{Frame, Row, SessionView, TaskView, Tokens};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use ts_rs::TS;

/// The runtime of one data folder. Clones share it.
#[derive(Clone)]
pub struct Engine {}

/// What a new session starts with.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The folder it works in.
    pub cwd: PathBuf,
    /// A model of the configuration; the default without one.
    pub model: Option<String>,
    /// What it may do without asking.
    pub mode: Mode,
    /// Its name for people; made from the first prompt without one.
    pub title: Option<String>,
}

/// What a stop is aimed at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The running turn of one session; what it started lives on.
    Turn(SessionId),
    /// A session's turn with every task and child it owns, depth first.
    Branch(SessionId),
    /// One task.
    Task(TaskId),
    /// Every live branch.
    Everything,
}

/// What became of a message to a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct Sent {
    /// It joined the running turn, or started one.
    pub route: Route,
    /// The activation that reads it.
    pub task: TaskId,
}

/// Rows of a transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct Page {
    /// The rows, oldest first.
    pub rows: Vec<Row>,
    /// The `n` of the first event that gives rows in the session: nothing comes before it.
    pub first: i64,
    /// The `n` of the last event of the session.
    pub last: i64,
}

/// A model of the configuration, and whether it works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct ModelView {
    /// Its name in the configuration.
    pub name: String,
    /// How it is spoken to.
    pub protocol: Protocol,
    /// The name that its server knows it by.
    pub model: Option<String>,
    /// Where it is.
    pub base_url: Option<String>,
    /// The size of its context in tokens, where it is known.
    pub context: Option<u64>,
    /// Whether sessions that name no model use it.
    pub default: bool,
    /// Why it cannot be used now; none when it works.
    pub problem: Option<String>,
}

/// Where a subscriber stands. Dropping it ends the subscription.
pub struct Follow {}

impl Follow {
    /// The log position it starts from, or stands at: everything up to it was told or was not asked for.
    pub fn seq(&self) -> i64 {
        unimplemented!()
    }

    /// Waits until something changed, then tells all of it at once, and no sooner than 33 ms after the last frame.
    /// None when the engine has shut down.
    pub async fn next(&mut self) -> Option<Result<Frame>> {
        unimplemented!()
    }
}

impl Engine {
    /// Opens the data folder: takes its lock, migrates the store, ends what a crash left, and mends every session.
    /// `held_elsewhere` when another process has it.
    pub async fn open(data: &Path, config: Config) -> Result<Self> {
        let _ = (data, config);
        unimplemented!()
    }

    /// What was ended of an earlier process that crashed, in one line for people; none when nothing was left.
    pub fn leftovers(&self) -> Option<String> {
        unimplemented!()
    }

    /// The configuration it runs with.
    pub fn config(&self) -> &Config {
        unimplemented!()
    }

    /// The folder that holds the store.
    pub fn data(&self) -> &Path {
        unimplemented!()
    }

    /// Opens a session. `gone` when the folder is not there or cannot be read.
    pub async fn open_session(&self, opening: Opening, key: &str) -> Result<SessionId> {
        let _ = (opening, key);
        unimplemented!()
    }

    /// Gives a root a prompt: durable when this answers, as event `n` of the session.
    pub async fn prompt(&self, session: &SessionId, text: String, key: &str) -> Result<i64> {
        let _ = (session, text, key);
        unimplemented!()
    }

    /// Sends a person's message to a child: joins its running turn, or resumes it.
    pub async fn send(&self, child: &SessionId, text: String, key: &str) -> Result<Sent> {
        let _ = (child, text, key);
        unimplemented!()
    }

    /// Stops, with proof. With `preview` nothing happens and the receipt names what would end.
    pub async fn stop(&self, target: Target, reason: Option<String>, preview: bool, key: &str) -> Result<Receipt> {
        let _ = (target, reason, preview, key);
        unimplemented!()
    }

    /// Sessions and tasks of one tree, or of all.
    pub async fn tree(&self, root: Option<&SessionId>) -> Result<(Vec<SessionView>, Vec<TaskView>)> {
        let _ = root;
        unimplemented!()
    }

    /// One session.
    pub async fn session(&self, id: &SessionId) -> Result<SessionView> {
        let _ = id;
        unimplemented!()
    }

    /// Tasks of one owner, or of all.
    pub async fn tasks(&self, owner: Option<&SessionId>) -> Result<Vec<TaskView>> {
        let _ = owner;
        unimplemented!()
    }

    /// A part of a task's output, from a byte offset.
    pub async fn output(&self, task: &TaskId, offset: u64, limit: usize) -> Result<Slice> {
        let _ = (task, offset, limit);
        unimplemented!()
    }

    /// Waits until the task has ended, or the time is over.
    pub async fn wait_task(&self, task: &TaskId, timeout: Duration) -> Result<TaskView> {
        let _ = (task, timeout);
        unimplemented!()
    }

    /// Waits until the session and everything below it is at rest, or the time is over.
    pub async fn wait_session(&self, session: &SessionId, timeout: Duration) -> Result<SessionView> {
        let _ = (session, timeout);
        unimplemented!()
    }

    /// Rows of a transcript: the newest `limit` before `before`, or the oldest `limit` after `after`, or the newest.
    pub async fn page(
        &self,
        session: &SessionId,
        before: Option<i64>,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Page> {
        let _ = (session, before, after, limit);
        unimplemented!()
    }

    /// The log of a session itself.
    pub async fn events(&self, session: &SessionId, after: i64, limit: usize) -> Result<Vec<Recorded>> {
        let _ = (session, after, limit);
        unimplemented!()
    }

    /// Follows the tree, and the rows and live text of one session. Starts after `after`, else from now.
    pub async fn follow(&self, session: Option<SessionId>, after: Option<i64>) -> Result<Follow> {
        let _ = (session, after);
        unimplemented!()
    }

    /// Tokens of one session, and of its branch.
    pub async fn usage(&self, session: &SessionId) -> Result<(Tokens, Tokens)> {
        let _ = session;
        unimplemented!()
    }

    /// The models, each asked whether it works.
    pub async fn models(&self) -> Result<Vec<ModelView>> {
        unimplemented!()
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        unimplemented!()
    }

    /// Deletes a session with all below it. `busy` when one of them is at work.
    pub async fn delete(&self, session: &SessionId, key: &str) -> Result<()> {
        let _ = (session, key);
        unimplemented!()
    }

    /// Gives a session another title.
    pub async fn rename(&self, session: &SessionId, title: String, key: &str) -> Result<()> {
        let _ = (session, title, key);
        unimplemented!()
    }

    /// Stops everything within the deadline, writes everything, closes the store and frees the lock. Afterwards every
    /// command answers `shutting_down`.
    pub async fn shutdown(&self, deadline: Duration) -> Result<Receipt> {
        let _ = deadline;
        unimplemented!()
    }
}
