//! What events say of files.

use crate::id::{CallId, ContentHash, SessionId};
use serde::{Deserialize, Serialize};

/// A change of a file, by the contents before and after it. Both are kept for the session in whose log this stands, for
/// a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The file, absolute, with every link on the way followed.
    pub path: String,
    /// How it was called for people.
    pub shown: String,
    /// What stood in it; none when it was not there.
    pub before: Option<ContentHash>,
    /// What stood in it then; none when it was removed.
    pub after: Option<ContentHash>,
}

/// A change of files that can be taken back: a call's, or one that took others back.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EditRef {
    /// In whose log it stands.
    pub session: SessionId,
    /// The `n` of the row that shows it: of the `Answered` that asked for the call, or of the `Undone`.
    pub n: i64,
    /// The call; none for an `Undone`.
    pub call: Option<CallId>,
}
