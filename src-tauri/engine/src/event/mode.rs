//! What a session may do without asking, and what the person answers when it asks.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// What an agent may do without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// It may look, and change nothing.
    ReadOnly,
    /// It asks before it changes something.
    #[default]
    Ask,
    /// It may edit files; it asks before it runs commands.
    AcceptEdits,
    /// It may do everything.
    Full,
}

impl Mode {
    /// The word for it, as in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Ask => "ask",
            Self::AcceptEdits => "accept-edits",
            Self::Full => "full",
        }
    }

    /// The one of the two that allows less.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        let rank = |mode| match mode {
            Self::ReadOnly => 0,
            Self::Ask => 1,
            Self::AcceptEdits => 2,
            Self::Full => 3,
        };
        if rank(other) < rank(self) { other } else { self }
    }
}

/// What a person answers to an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// This call may.
    Once,
    /// Exactly this may be done in this folder by the session that asked and all below it.
    Branch,
    /// Exactly this may be done in this folder by every session.
    Always,
    /// It may not.
    Deny,
    /// Not now: the ask stays open, and so does the call that waits for it.
    Later,
}
