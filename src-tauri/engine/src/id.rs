//! The names of things. Each is a newtype, so that a session can never be passed where a task is meant.

use serde::{Deserialize, Serialize};
use std::fmt;
use ts_rs::TS;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, TS)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// The text of the name, as it stands on the wire and in the store.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }
    };
}

name! {
    /// A durable conversation: a UUID (version 7), so that sessions sort by their start.
    SessionId
}
name! {
    /// A background task: `<kind>-<n>`, counted per kind over the life of the store.
    TaskId
}
name! {
    /// A question to the person: `ask-<n>`, counted over the life of the store.
    AskId
}
name! {
    /// One tool call: `<step>.<position>`, unique within its session. The model's own id is not kept,
    /// because servers repeat theirs.
    CallId
}

name! {
    /// The content of a file: its SHA-256, in hexadecimal digits.
    ContentHash
}

/// One live agent of this process. Two agents of one session, one after the other, differ in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(pub u64);

/// Who owns a task: the session gives access to it, the exact agent is the target of its clean-up and notice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The session that may read, wait for and kill the task.
    pub session: SessionId,
    /// The live agent that started it.
    pub agent: AgentId,
}
