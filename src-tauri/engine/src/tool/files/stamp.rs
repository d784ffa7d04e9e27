//! The state of a file, as it is remembered and as the log has it.

use crate::files::{handle, hash};
use crate::id::ContentHash;
use serde::{Deserialize, Serialize};
use std::fs::Metadata;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// The state of a file. Two stamps with a hash are the same when their contents are; others when length and time are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    len: u64,
    /// In nanoseconds since the Unix epoch.
    modified: Option<u64>,
    hash: Option<ContentHash>,
    /// Which file it is, on which device.
    pub(super) id: handle::FileId,
}

/// What the result of a tool says of a file, under `file`: what its session saw, or made it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Fact {
    /// The file, absolute, with every link on the way followed.
    pub path: String,
    /// Its state.
    #[serde(flatten)]
    pub stamp: Stamp,
    /// Whether the session made it so.
    pub wrote: bool,
}

impl Stamp {
    /// The state that `metadata` tells, with the content where it is known whole.
    pub fn new(metadata: &Metadata, content: Option<&[u8]>) -> Self {
        let since = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        Self {
            len: metadata.len(),
            modified: since.and_then(|since| u64::try_from(since.as_nanos()).ok()),
            hash: content.map(hash),
            id: handle::id(metadata),
        }
    }

    /// The fact of it, as JSON.
    pub(in crate::tool) fn fact(&self, path: &Path, wrote: bool) -> serde_json::Value {
        let fact = Fact { path: path.display().to_string(), stamp: self.clone(), wrote };
        // A struct of plain fields always serialises.
        serde_json::to_value(fact).unwrap_or_default()
    }

    pub(super) fn same(&self, other: &Self) -> bool {
        match (&self.hash, &other.hash) {
            (Some(one), Some(two)) => one == two,
            (None, None) => (self.len, self.modified) == (other.len, other.modified),
            _ => false,
        }
    }
}
