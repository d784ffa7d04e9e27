//! Handles where the system gives this program no open folders.

use super::{FileId, Identity};
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// A folder by its path, which was looked at right before.
pub struct Folder(PathBuf);

pub fn id(_: &Metadata) -> FileId {
    None
}

pub fn modified(metadata: &Metadata) -> (i64, i64) {
    let since = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), i64::from(since.subsec_nanos()))
}

pub fn met_link(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Linked>())
}

pub fn open(real: &Path) -> io::Result<File> {
    unlinked(real)?;
    File::open(real)
}

#[derive(Debug, thiserror::Error)]
#[error("a link stands on the way")]
struct Linked;

/// Refuses a path that leads over a link at this moment.
fn unlinked(real: &Path) -> io::Result<()> {
    if real.canonicalize()? == real { Ok(()) } else { Err(io::Error::other(Linked)) }
}

impl Folder {
    pub fn open(real: &Path) -> io::Result<Self> {
        unlinked(real)?;
        Ok(Self(real.to_owned()))
    }

    pub fn make(&self, name: &OsStr) -> io::Result<Self> {
        let path = self.0.join(name);
        match std::fs::create_dir(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        Self::open(&path)
    }

    pub fn read(&self, name: &OsStr) -> io::Result<File> {
        open(&self.0.join(name))
    }

    pub fn create(&self, name: &OsStr) -> io::Result<File> {
        unlinked(&self.0)?;
        OpenOptions::new().write(true).create_new(true).open(self.0.join(name))
    }

    pub fn look(&self, name: &OsStr) -> io::Result<Option<Identity>> {
        match std::fs::symlink_metadata(self.0.join(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            looked => looked.map(|metadata| Some(Identity::of(&metadata))),
        }
    }

    pub fn may_write(&self, _: &OsStr) -> bool {
        true
    }

    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        unlinked(&self.0)?;
        std::fs::rename(self.0.join(from), self.0.join(to))
    }

    pub fn rename_to_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        if self.look(to)?.is_some() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.rename(from, to)
    }

    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        unlinked(&self.0)?;
        std::fs::remove_file(self.0.join(name))
    }

    pub fn sync(&self) {}
}
