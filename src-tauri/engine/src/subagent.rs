//! The seam to subagent providers: what can run a child.

use crate::agent::Done;
use crate::error::Result;
use crate::event::{Descriptor, Mode, Party, Route};
use crate::id::{SessionId, TaskId};
use crate::task::Cause;
use async_trait::async_trait;
use std::sync::Arc;
use tokio_util::sync::{CancellationToken, DropGuard};

pub mod local;

/// Runs children. Several coexist, registered by name.
#[async_trait]
pub trait Provider: Send + Sync {
    /// `spawn`, `fork` or `acp`.
    fn name(&self) -> &'static str;

    /// Starts a fresh child under exactly the id that it is given, with its descriptor inside its first turn. When
    /// this fails, nothing is left behind.
    async fn start(&self, start: Start) -> Result<Arc<dyn Run>>;

    /// The power to wake a child that has ended; none where its sessions are not kept.
    fn resumes(&self) -> Option<&dyn Resumes>;
}

/// Wakes a child that has ended.
#[async_trait]
pub trait Resumes: Send + Sync {
    /// Wakes the child with a message. When this fails, the message was not delivered.
    async fn resume(&self, resume: Resume) -> Result<Arc<dyn Run>>;
}

/// One disposable activation of a child.
#[async_trait]
pub trait Run: Send + Sync {
    /// Waits for the end of its turn.
    async fn result(&self) -> Done;

    /// Hands a message into the running turn: answers the `n` under which it was accepted, or that it was not
    /// delivered. Never starts anything.
    async fn steer(&self, message: Message) -> Result<i64>;

    /// Releases everything of it; the durable session stays.
    async fn dispose(&self, cause: Cause);
}

/// The parent of a child, as far as the child is concerned.
#[derive(Clone, Debug)]
pub struct Parent {
    /// Its session.
    pub session: SessionId,
    /// The root of the tree.
    pub root: SessionId,
    /// Its depth.
    pub depth: u32,
    /// Its folder, which the child shares.
    pub cwd: String,
    /// What it may do without asking; a child may do no more.
    pub mode: Mode,
}

/// A message to a child.
#[derive(Clone, Debug)]
pub struct Message {
    /// Who wrote it.
    pub from: Party,
    /// The words.
    pub text: String,
    /// Client-minted, where a client sent it.
    pub key: Option<String>,
    /// The only way that it may take, where the sender promised one: another way delivers nothing.
    pub expect: Option<Route>,
}

/// What starts a child.
#[derive(Debug)]
pub struct Start {
    /// The id that it gets.
    pub child: SessionId,
    /// Its parent.
    pub parent: Parent,
    /// How it is built, and rebuilt.
    pub descriptor: Descriptor,
    /// What it is asked.
    pub prompt: String,
    /// The activation; none when the parent waits for it.
    pub task: Option<TaskId>,
    /// Ends it, before and after it is published.
    pub cancel: CancellationToken,
    /// To be dropped when its place in the log is sure: the next child of this parent may take its own.
    pub next: DropGuard,
}

/// What wakes a child.
#[derive(Clone, Debug)]
pub struct Resume {
    /// The child.
    pub child: SessionId,
    /// How it is rebuilt.
    pub descriptor: Descriptor,
    /// What it is told.
    pub message: Message,
    /// The activation.
    pub task: TaskId,
    /// Ends it.
    pub cancel: CancellationToken,
}
