//! The output log of a command: addressed by byte offset, read by many without disturbing one another, bounded on disk.

use crate::error::Result;
use std::path::Path;
use std::sync::Arc;

/// A command's output. Clones share it.
#[derive(Clone)]
pub struct OutputLog {
    inner: Arc<()>,
}

/// A part of an output log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The text; invalid UTF-8 is replaced; cuts fall on character boundaries.
    pub text: String,
    /// The offset to read from next.
    pub next: u64,
    /// The size so far, in bytes.
    pub size: u64,
    /// Whether the log is complete: the command has ended and nothing comes any more.
    pub done: bool,
    /// How many bytes between the asked offset and `text` are no longer kept, because the log passed its bound.
    pub dropped: u64,
}

impl OutputLog {
    /// A new log in the folder `dir`, which it makes. It keeps at most `bound` bytes: its beginning and its end; what
    /// falls between is dropped and counted.
    pub fn create(dir: &Path, bound: u64) -> Result<Self> {
        let _ = (dir, bound);
        unimplemented!()
    }

    /// The log of a command that has ended, as an earlier process left it.
    pub fn open(dir: &Path) -> Result<Self> {
        let _ = dir;
        unimplemented!()
    }

    /// Appends. An error (a full disk) is told once here and shown in the log; later output is counted, not kept.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        let _ = (bytes, &self.inner);
        unimplemented!()
    }

    /// Reads at most `limit` bytes from `offset`.
    pub fn read(&self, offset: u64, limit: usize) -> Result<Slice> {
        let _ = (offset, limit);
        unimplemented!()
    }

    /// The size so far, in bytes.
    pub fn size(&self) -> u64 {
        unimplemented!()
    }

    /// Nothing comes any more.
    pub fn finish(&self) {
        unimplemented!()
    }
}
