//! From a judged path to a handle. The path is canonical: every link was followed when it was judged. So no link may
//! stand on its way any more, and one that was put there since is refused, not followed.
//!
//! On Linux the kernel refuses it (`openat2`); on other Unixes, and where the kernel does not know that call, the way
//! is walked one folder at a time, each opened in the one before and not through a link. What is done then is done in
//! the folder that is held open, whatever becomes of the path meanwhile. Windows offers this program no such handle:
//! there the way is looked at once more right before, which narrows the gap and does not close it.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(unix))]
use plain as system;
#[cfg(unix)]
use unix as system;

#[cfg(not(unix))]
mod plain;
#[cfg(unix)]
mod unix;

/// A name in a folder that is held open. What is done with it stays in that folder, wherever the path leads by then.
pub struct Spot {
    folder: system::Folder,
    name: OsString,
}

/// Why a file was not changed.
#[derive(Debug)]
pub enum Missed {
    /// It is not what it was when it was looked at.
    Changed,
    /// The system refused.
    Disk(io::Error),
}

impl From<io::Error> for Missed {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

/// Which file it is, on which device; none where the system does not tell.
pub type FileId = Option<(u64, u64)>;

/// Which file this is.
pub fn id(metadata: &Metadata) -> FileId {
    system::id(metadata)
}

/// Whether the system refused because a link stood on the way.
pub fn met_link(error: &io::Error) -> bool {
    system::met_link(error)
}

/// Opens what stands at a canonical path to read. Opening a FIFO or a device does not wait for its other end.
pub fn open(real: &Path) -> io::Result<File> {
    system::open(real)
}

impl Spot {
    /// The place of a canonical path, whose folder exists.
    pub fn at(real: &Path) -> io::Result<Self> {
        let (folder, name) = split(real)?;
        Ok(Self { folder: system::Folder::open(folder)?, name: name.to_owned() })
    }

    /// The same, and the folders that are missing on the way are made.
    pub fn make(real: &Path) -> io::Result<Self> {
        let (above, name) = split(real)?;
        let mut missing: Vec<&OsStr> = Vec::new();
        let mut there = above;
        let mut folder = loop {
            match system::Folder::open(there) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let (above, name) = split(there)?;
                    missing.push(name);
                    there = above;
                }
                opened => break opened?,
            }
        };
        for name in missing.into_iter().rev() {
            folder = folder.make(name)?;
        }
        Ok(Self { folder, name: name.to_owned() })
    }

    /// Opens what is there to read.
    pub fn open(&self) -> io::Result<File> {
        self.folder.read(&self.name)
    }

    /// What is there, if something is; a link is not followed.
    pub fn look(&self) -> io::Result<Option<Identity>> {
        self.folder.look(&self.name)
    }

    /// Whether this user may change the file. A rename would not ask, so we do.
    pub fn may_write(&self, metadata: &Metadata) -> bool {
        !metadata.permissions().readonly() && self.folder.may_write(&self.name)
    }

    /// Puts `content` here in one step: whoever reads sees the old file or the new one, whole. `over` is the file that
    /// is replaced, whose permissions are kept; without it there must be none. Answers what the new file is.
    pub fn put(&self, content: &[u8], over: Option<&Metadata>) -> Result<Metadata, Missed> {
        let (scratch, mut file) = self.scratch()?;
        let written = self.fill(&mut file, content, over).and_then(|metadata| {
            match over {
                Some(over) => {
                    self.unchanged(over)?;
                    self.folder.rename(&scratch, &self.name)?;
                }
                None => match self.folder.rename_to_new(&scratch, &self.name) {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(Missed::Changed),
                    renamed => renamed?,
                },
            }
            Ok(metadata)
        });
        match written {
            Ok(metadata) => {
                self.folder.sync();
                Ok(metadata)
            }
            Err(missed) => {
                // The first error is the one to tell; a scratch file that cannot be removed changes nothing about it.
                let _ = self.folder.remove(&scratch);
                Err(missed)
            }
        }
    }

    /// Removes the file that was looked at.
    pub fn remove(&self, over: &Metadata) -> Result<(), Missed> {
        self.unchanged(over)?;
        self.folder.remove(&self.name)?;
        self.folder.sync();
        Ok(())
    }

    fn fill(&self, file: &mut File, content: &[u8], over: Option<&Metadata>) -> Result<Metadata, Missed> {
        // First, so that what a private file is to hold is nobody else's to read meanwhile.
        if let Some(over) = over {
            file.set_permissions(over.permissions())?;
        }
        file.write_all(content)?;
        file.sync_all()?;
        Ok(file.metadata()?)
    }

    /// Whether the file here is still the one that was looked at. Between this and the rename lies one system call.
    fn unchanged(&self, over: &Metadata) -> Result<(), Missed> {
        match self.look()? {
            Some(now) if now == Identity::of(over) => Ok(()),
            _ => Err(Missed::Changed),
        }
    }

    fn scratch(&self) -> io::Result<(OsString, File)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = OsString::from(format!(".coppice-{}-{count}.tmp", std::process::id()));
            match self.folder.create(&name) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => return made.map(|file| (name, file)),
            }
        }
    }
}

/// What tells a file from another, and from itself after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    id: FileId,
    len: u64,
    /// When it was changed last, in seconds and nanoseconds.
    modified: (i64, i64),
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self { id: id(metadata), len: metadata.len(), modified: system::modified(metadata) }
    }
}

fn split(real: &Path) -> io::Result<(&Path, &OsStr)> {
    match (real.parent(), real.file_name()) {
        (Some(folder), Some(name)) => Ok((folder, name)),
        _ => Err(io::Error::new(ErrorKind::IsADirectory, PathBuf::from(real).display().to_string())),
    }
}
