//! What SQLite reports, in words for people.

use crate::error::{Code, Error};
use rusqlite::ErrorCode;
use std::io;
use std::path::Path;

/// Why a piece of work on the store did not succeed.
#[derive(Debug)]
pub(super) enum Fault {
    /// SQLite failed.
    Sql(rusqlite::Error),
    /// Something that this module wrote does not read back.
    Unreadable(serde_json::Error),
    /// A rule refused it.
    Refused(Error),
    /// The store is not this process's any more.
    Lost(Loss),
}

/// How a store was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// It is not at its path any more.
    Away,
    /// Another process has taken the lease.
    Taken,
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        Self::Unreadable(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl Fault {
    /// The same for people, told of the store at `path`.
    pub(super) fn told(self, path: &Path) -> Error {
        match self {
            Self::Sql(error) => sql(path, error),
            Self::Unreadable(error) => damaged(path, &error.to_string()).because(error),
            Self::Refused(error) => error,
            Self::Lost(loss) => lost(path, loss),
        }
    }
}

fn sql(path: &Path, error: rusqlite::Error) -> Error {
    let shown = path.display();
    let message = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => return damaged(path, &error.to_string()),
        Some(ErrorCode::DiskFull) => {
            "The disk is full. Free some space and try again; nothing of what was saved before is lost.".to_owned()
        }
        Some(ErrorCode::SystemIoFailure) => format!(
            "The disk did not take or give what {shown} holds ({error}). It may be full or failing: free some space, \
             check the disk and try again; nothing of what was saved before is lost."
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => format!(
            "Another program keeps {shown} locked. End it and try again; nothing of what was saved before is lost."
        ),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            return unwritable(path, &error.to_string());
        }
        _ => format!("The store {shown} failed: {error}. Nothing of what was saved before is lost."),
    };
    Error::new(Code::Store, message).because(error)
}

/// What is said while writes wait for another program that holds the store.
pub(super) const LOCKED: &str = "Another program keeps the store locked; what you do is kept as soon as it lets go.";

/// The store was lost while it was open. Nothing can be kept from here on.
pub(super) fn lost(path: &Path, loss: Loss) -> Error {
    let folder = path.parent().unwrap_or(path).display();
    match loss {
        Loss::Away => Error::new(
            Code::Gone,
            format!(
                "The data folder {folder} was deleted, moved or replaced while Coppice had it open. What ran is ended, \
                 and nothing is saved any more. Close Coppice, put the folder back if it was moved, and start again."
            ),
        ),
        Loss::Taken => Error::new(
            Code::HeldElsewhere,
            format!(
                "Another Coppice has taken the data folder {folder} over. What ran here is ended, and nothing is saved \
                 here any more; everything that was saved before is there. Go on in the other one, or close both and \
                 start again."
            ),
        ),
    }
}

/// The store is there, and cannot be trusted.
pub(super) fn damaged(path: &Path, what: &str) -> Error {
    Error::new(
        Code::Store,
        format!(
            "{} is damaged ({what}). It was left as it is. Copy its folder to a safe place first; `sqlite3` can often \
             read most of it with `.recover`. To go on meanwhile, choose another folder with --data.",
            path.display()
        ),
    )
}

/// The folder or the file does not take writes.
pub(super) fn unwritable(path: &Path, what: &str) -> Error {
    Error::new(
        Code::Store,
        format!(
            "{} cannot be written ({what}). Nothing was changed. Allow writing there, or choose another folder with \
             --data.",
            path.display()
        ),
    )
}

/// The system refused a file operation while the store was being opened.
pub(super) fn refused(path: &Path, error: io::Error) -> Error {
    unwritable(path, &error.to_string()).because(error)
}

/// No session has this id, or has it any more.
pub(super) fn unknown_session(id: &str) -> Error {
    Error::new(Code::UnknownSession, format!("There is no session {id}. It may have been deleted."))
}

/// No task has this id, or has it any more.
pub(super) fn unknown_task(id: &str) -> Error {
    Error::new(Code::UnknownTask, format!("There is no task {id}. Its session may have been deleted."))
}
