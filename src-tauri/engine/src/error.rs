//! One error for the whole engine: a code where a caller branches, prose for the person who reads it.

use serde::{Deserialize, Serialize};
use std::error::Error as StdError;
use std::fmt;
use ts_rs::TS;

/// What kind of failure it is. The wire carries the snake-case name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request or an argument is malformed.
    BadRequest,
    /// No session has this id.
    UnknownSession,
    /// No task has this id.
    UnknownTask,
    /// The task belongs to another session.
    NotYours,
    /// A message was not delivered; nothing happened.
    NotDelivered,
    /// The position to follow from is not known any more: read the tree again, and follow from now.
    Stale,
    /// Something else holds what was asked for.
    Conflict,
    /// The session cannot be resumed.
    NotResumable,
    /// It is at work; ask again later.
    Busy,
    /// Another process holds the data folder or the session.
    HeldElsewhere,
    /// Permission was refused.
    Refused,
    /// A limit of the configuration was reached.
    Limit,
    /// The model or its server failed.
    Model,
    /// The store failed.
    Store,
    /// A folder is gone or cannot be read: the session's, or the one that holds the store.
    Gone,
    /// The input is larger than what is taken.
    TooLarge,
    /// The engine is shutting down.
    ShuttingDown,
    /// A defect of Coppice.
    Internal,
}

/// A failure: its code, what happened and what to do in one or two sentences, and the cause underneath.
#[derive(Debug)]
pub struct Error {
    code: Code,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The engine's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A failure without a cause underneath.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), source: None }
    }

    /// The same failure with the cause underneath, for logs.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What kind of failure it is.
    pub fn code(&self) -> Code {
        self.code
    }

    /// What happened and what to do, for people.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}
