//! Handles on Unix.

use super::{FileId, Identity};
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, RawMode};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

/// A folder that is held open.
pub struct Folder(OwnedFd);

/// How a folder is opened only to reach what is in it.
#[cfg(target_os = "linux")]
const REACH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const REACH: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// How a file is opened to read, so that nothing is waited for.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// The permissions of a new file and folder, before the user's mask.
const FILE: RawMode = 0o666;
const FOLDER: RawMode = 0o777;

pub fn id(metadata: &Metadata) -> FileId {
    Some((metadata.dev(), metadata.ino()))
}

pub fn modified(metadata: &Metadata) -> (i64, i64) {
    (metadata.mtime(), metadata.mtime_nsec())
}

pub fn met_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

pub fn open(real: &Path) -> io::Result<File> {
    Ok(File::from(reach(real, READ)?))
}

impl Folder {
    pub fn open(real: &Path) -> io::Result<Self> {
        Ok(Self(reach(real, REACH)?))
    }

    /// Makes a folder in this one, unless it is there, and opens it.
    pub fn make(&self, name: &OsStr) -> io::Result<Self> {
        match rustix::fs::mkdirat(&self.0, name, Mode::from_raw_mode(FOLDER)) {
            Err(error) if error != Errno::EXIST => return Err(error.into()),
            _ => {}
        }
        Ok(Self(rustix::fs::openat(&self.0, name, REACH | OFlags::NOFOLLOW, Mode::empty())?))
    }

    pub fn read(&self, name: &OsStr) -> io::Result<File> {
        Ok(File::from(rustix::fs::openat(&self.0, name, READ | OFlags::NOFOLLOW, Mode::empty())?))
    }

    pub fn create(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.0, name, flags, Mode::from_raw_mode(FILE))?))
    }

    pub fn look(&self, name: &OsStr) -> io::Result<Option<Identity>> {
        match rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
            #[allow(clippy::unnecessary_cast, clippy::useless_conversion, reason = "the widths differ between systems")]
            Ok(stat) => Ok(Some(Identity {
                id: Some((stat.st_dev as u64, stat.st_ino as u64)),
                len: u64::try_from(stat.st_size).unwrap_or(0),
                modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            })),
        }
    }

    pub fn may_write(&self, name: &OsStr) -> bool {
        rustix::fs::accessat(&self.0, name, Access::WRITE_OK, AtFlags::empty()).is_ok()
    }

    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// Renames, unless something is there already.
    pub fn rename_to_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        match rustix::fs::renameat_with(&self.0, from, &self.0, to, rustix::fs::RenameFlags::NOREPLACE) {
            // The file system does not know how.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            renamed => return Ok(renamed?),
        }
        if self.look(to)?.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.rename(from, to)
    }

    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Lets a rename or removal outlast a power cut, where this user may read the folder and the file system can: the
    /// change is made either way.
    pub fn sync(&self) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let synced =
            rustix::fs::openat(&self.0, ".", flags, Mode::empty()).and_then(|folder| rustix::fs::fsync(&folder));
        if let Err(error) = synced {
            tracing::debug!(%error, "a folder could not be synced");
        }
    }
}

/// Opens a canonical path over no link.
fn reach(real: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let over = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(CWD, real, flags, Mode::empty(), over) {
            // An old kernel, or a sandbox that does not know the call: the same on foot.
            Err(Errno::NOSYS | Errno::PERM) => {}
            opened => return Ok(opened?),
        }
    }
    walk(real, flags)
}

/// The same, one folder at a time.
fn walk(real: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let mut at = rustix::fs::openat(CWD, "/", REACH, Mode::empty())?;
    let mut names = real.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let Some(mut name) = names.next() else { return Ok(rustix::fs::openat(&at, ".", flags, Mode::empty())?) };
    for next in names {
        at = rustix::fs::openat(&at, name, REACH | OFlags::NOFOLLOW, Mode::empty())?;
        name = next;
    }
    Ok(rustix::fs::openat(&at, name, flags | OFlags::NOFOLLOW, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn on_foot_a_link_is_as_little_followed_as_by_the_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(real.join("a/b")).unwrap();
        std::fs::write(real.join("a/b/f"), "text").unwrap();
        std::os::unix::fs::symlink("a", real.join("way")).unwrap();
        std::os::unix::fs::symlink("f", real.join("a/b/end")).unwrap();
        for way in [reach, walk] {
            let mut text = String::new();
            File::from(way(&real.join("a/b/f"), READ).unwrap()).read_to_string(&mut text).unwrap();
            assert_eq!(text, "text");
            for linked in ["way/b/f", "a/b/end"] {
                assert!(way(&real.join(linked), READ).is_err(), "{linked}");
            }
            assert!(way(&real.join("way"), REACH).is_err());
            assert!(way(Path::new("/"), REACH).is_ok());
        }
    }
}
