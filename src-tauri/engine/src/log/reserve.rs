//! A little room on the disk that is given up when there is no other: without it SQLite cannot make the files that it
//! needs to open a store, and a store on a full disk could not even be read.

use crate::env;
use std::fs;
use std::path::{Path, PathBuf};

/// What a store needs to be opened and to take a few small writes, in bytes.
const SIZE: usize = 512 * 1024;

/// The file that holds the room of the store at `path`.
fn file(path: &Path) -> PathBuf {
    path.with_extension("reserve")
}

/// Gives the room up if the disk has less. Answers whether it did.
pub(super) fn give_up(path: &Path) -> bool {
    let full = path.parent().and_then(env::free).is_some_and(|free| free < SIZE as u64);
    full && fs::remove_file(file(path)).is_ok()
}

/// Takes the room if it is not taken yet and there is more than that.
pub(super) fn take(path: &Path) {
    let file = file(path);
    let taken = fs::metadata(&file).is_ok_and(|metadata| metadata.len() == SIZE as u64);
    let room = path.parent().and_then(env::free).is_some_and(|free| free > 4 * SIZE as u64);
    if taken || !room {
        return;
    }
    if let Err(error) = fs::write(&file, vec![0x55; SIZE]) {
        tracing::warn!(%error, "no room is kept for a full disk");
        // What was written of it would only take room.
        drop(fs::remove_file(&file));
    }
}
