//! One process per data folder: a lock file that dies with its holder.

use crate::error::{Code, Error, Result};
use crate::log::held::Held;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

/// The lock, held until it is dropped or the process ends.
pub struct FolderLock(File);

impl Drop for FolderLock {
    /// Gives it back by name: a process that is just being made has the file open too, until it runs its program, and
    /// closing our own would leave the lock to it.
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "the data folder's lock is given back only when the file is closed");
        }
    }
}

impl FolderLock {
    /// Takes the lock of the folder `data`, which must exist, and says what is held by it. `held_elsewhere`, with the
    /// holder's pid, when it is taken.
    pub fn take(data: &Path) -> Result<(Self, Held)> {
        let path = data.join("coppice.lock");
        let cannot = |error: std::io::Error| {
            let message = format!(
                "The data folder {} cannot be written ({error}). Give write permission, or choose another with --data.",
                data.display()
            );
            Error::new(Code::Store, message).because(error)
        };
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(cannot)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Who holds it is a courtesy: without it the message says less.
                let pid = file.read_to_string(&mut holder).ok().and_then(|_| holder.trim().parse::<u32>().ok());
                let who = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
                let message = format!(
                    "Another Coppice{who} has the data folder {} open. Use its window, end it, or choose another \
                     folder with --data.",
                    data.display()
                );
                return Err(Error::new(Code::HeldElsewhere, message));
            }
            Err(TryLockError::Error(error)) => return Err(cannot(error)),
        }
        let mut note = || -> std::io::Result<()> {
            file.set_len(0)?;
            file.rewind()?;
            write!(file, "{}", std::process::id())
        };
        note().map_err(cannot)?;
        // Of the open file and not of the path: a lock on a file that nobody finds any more keeps nobody out.
        let mut held = Held::default();
        held.add(&path, &file.metadata().map_err(cannot)?);
        Ok((Self(file), held))
    }
}
