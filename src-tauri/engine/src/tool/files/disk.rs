//! The disk as the tools see it: where a path really leads, files that cannot hang a reader, writes that are whole.

use super::memory::FileMemory;
use crate::scope::Scope;
use crate::tool::{Call, Outcome};
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long a cancelled call waits for its work to notice. Longer means that the disk hangs.
const STOP_WAIT: Duration = Duration::from_secs(2);

/// The longest path that is looked at, in bytes. No system takes a longer one.
const MAX_PATH: usize = 4096;

/// Where a path leads.
#[derive(Clone, Debug)]
pub struct Place {
    /// The canonical path. What does not exist yet is canonical as far as it exists.
    pub real: PathBuf,
    /// The path for people and models: relative when it is below the call's folder.
    pub shown: String,
    /// Whether something is there.
    pub exists: bool,
}

impl Place {
    /// How a sentence calls it.
    pub fn called(&self) -> &str {
        if self.shown == "." { "this folder" } else { &self.shown }
    }
}

/// Runs `work` on a blocking thread. Work watches the token; if the disk hangs, the call ends without it.
pub async fn off_thread(cancel: &CancellationToken, work: impl FnOnce() -> Outcome + Send + 'static) -> Outcome {
    let work = Scope::blocking(work);
    tokio::pin!(work);
    tokio::select! {
        biased;
        outcome = &mut work => return outcome,
        () = cancel.cancelled() => {}
    }
    match tokio::time::timeout(STOP_WAIT, work).await {
        Ok(outcome) => outcome,
        Err(_) => Outcome::fail("Stopped. The disk does not answer, so it is not known whether anything was done."),
    }
}

/// What a call answers that was stopped before it did anything.
pub fn stopped() -> Outcome {
    Outcome::fail("Stopped before anything was done.")
}

/// Finds where `path` leads, from the call's folder. Links are followed; a link to nothing, a closed folder and a
/// path through a file are refused.
pub fn resolve(memory: &FileMemory, call: &Call, path: &str) -> Result<Place, Outcome> {
    if path.is_empty() || path.contains('\0') {
        return Err(Outcome::fail("The path is empty or holds a NUL character. Give the path of a file."));
    }
    if path.len() > MAX_PATH {
        return Err(Outcome::fail(format!("The path is longer than {MAX_PATH} bytes. Give the path of a file.")));
    }
    let asked = Path::new(path);
    let folder = std::fs::canonicalize(&call.cwd);
    let mut real = match (&folder, asked.is_absolute()) {
        (_, true) => PathBuf::new(),
        (Ok(folder), false) => folder.clone(),
        (Err(error), false) => {
            let cwd = call.cwd.display();
            return Err(Outcome::fail(format!(
                "The folder {cwd} of this session is gone or cannot be entered ({error}). Nothing was done. \
                 Use absolute paths, or have the folder put back."
            )));
        }
    };
    let mut exists = true;
    for component in asked.components() {
        match component {
            Component::CurDir => continue,
            Component::ParentDir => {
                real.pop();
            }
            other => real.push(other),
        }
        exists = match std::fs::symlink_metadata(&real) {
            Ok(_) => match std::fs::canonicalize(&real) {
                Ok(target) => {
                    real = target;
                    true
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let what =
                        format!("{} is a link to something that is not there. Nothing was done.", real.display());
                    return Err(Outcome::fail(what));
                }
                Err(error) => return Err(unusable(&real.display().to_string(), &error)),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(unusable(path, &error)),
        };
    }
    if memory.is_closed(&real) {
        return Err(Outcome::fail(format!("{path} is out of reach of every tool. Nothing was done.")));
    }
    let below = folder.ok().and_then(|folder| real.strip_prefix(folder).ok().map(Path::to_owned));
    let shown = match below {
        Some(below) if below.as_os_str().is_empty() => ".".to_owned(),
        Some(below) => below.display().to_string(),
        None => real.display().to_string(),
    };
    Ok(Place { real, shown, exists })
}

/// What a call answers when the system refuses a path.
pub fn unusable(path: &str, error: &io::Error) -> Outcome {
    let hint = match error.kind() {
        ErrorKind::NotADirectory => " A part of the path is a file, so nothing can be in it.",
        ErrorKind::PermissionDenied => " The rights of this user do not reach it.",
        _ => "",
    };
    Outcome::fail(format!("{path} cannot be used: {error}.{hint}"))
}

/// Opens a regular file to read. Everything else is refused before it can hang or never end.
pub fn open(place: &Place) -> Result<(File, Metadata), Outcome> {
    let shown = &place.shown;
    if !place.exists {
        let home = if shown.starts_with('~') { " `~` is not expanded: give the absolute path." } else { "" };
        return Err(Outcome::fail(format!("There is no file {shown}.{home} Look for it by a pattern.")));
    }
    let opened = open_at_once(&place.real).and_then(|file| file.metadata().map(|metadata| (file, metadata)));
    let (file, metadata) = match opened {
        Ok(opened) => opened,
        // Windows opens no folder; a socket cannot be opened anywhere.
        Err(error) => match std::fs::metadata(&place.real) {
            Ok(metadata) if !metadata.is_file() => return Err(no_file(shown, &metadata)),
            _ => return Err(unusable(shown, &error)),
        },
    };
    if metadata.is_file() { Ok((file, metadata)) } else { Err(no_file(shown, &metadata)) }
}

/// Opens a file to read; opening a FIFO or a device does not wait for its other end.
pub fn open_at_once(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    options.open(path)
}

fn no_file(shown: &str, metadata: &Metadata) -> Outcome {
    if metadata.is_dir() {
        let below = if shown == "." { String::new() } else { format!("{}/", shown.trim_end_matches('/')) };
        let shown = if shown == "." { "This path" } else { shown };
        return Outcome::fail(format!("{shown} is a folder. List it by the pattern \"{below}*\"."));
    }
    Outcome::fail(format!("{shown} is a pipe, a socket or a device, not a file. It was left alone."))
}

/// Puts `content` at `path` in one step: whoever reads sees the old file or the new one, whole. An existing file's
/// permissions are kept. Answers what the new file is.
pub fn replace(path: &Path, content: &[u8], permissions: Option<Permissions>) -> io::Result<Metadata> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let (scratch, mut file) = scratch_file(folder)?;
    let written = file.write_all(content).and_then(|()| {
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        file.sync_all()?;
        let metadata = file.metadata()?;
        std::fs::rename(&scratch, path)?;
        Ok(metadata)
    });
    if written.is_err() {
        // The first error is the one to tell; a scratch file that cannot be removed changes nothing about it.
        let _ = std::fs::remove_file(&scratch);
    }
    written
}

fn scratch_file(folder: &Path) -> io::Result<(PathBuf, File)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".coppice-{}-{count}.tmp", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            other => return other.map(|file| (path, file)),
        }
    }
}

/// Whether this user may change the file. A rename would not ask, so we do.
pub fn may_write(path: &Path, metadata: &Metadata) -> bool {
    #[cfg(unix)]
    let allowed = rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    #[cfg(not(unix))]
    let allowed = {
        let _ = path;
        true
    };
    allowed && !metadata.permissions().readonly()
}
