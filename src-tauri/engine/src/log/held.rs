//! Whether the paths still lead to the files that this process holds. An open file outlives its name: without this
//! look, a folder that was deleted or replaced would go on taking writes that nobody will ever find.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

/// Files that are held open, and the paths under which others find them.
#[derive(Clone, Debug, Default)]
pub struct Held(Vec<(PathBuf, Identity)>);

/// What tells a file from another one of the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity(u64, u64);

impl Identity {
    /// The identity of an open file, or of what stands at a path. All files are one where the system tells none apart;
    /// it does not let go of the name of an open file then.
    pub fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let (device, number) = {
            use std::os::unix::fs::MetadataExt;
            (metadata.dev(), metadata.ino())
        };
        #[cfg(not(unix))]
        let (device, number) = {
            let _ = metadata;
            (0, 0)
        };
        Self(device, number)
    }
}

impl Held {
    /// Holds one more file.
    pub fn add(&mut self, path: &Path, metadata: &Metadata) {
        self.0.push((path.to_owned(), Identity::of(metadata)));
    }

    /// Whether one of the paths leads to another file, or to none. One that cannot be looked at for another reason is
    /// not taken for lost.
    pub fn is_lost(&self) -> bool {
        use std::io::ErrorKind::{NotADirectory, NotFound};
        self.0.iter().any(|(path, held)| match std::fs::metadata(path) {
            Ok(found) => Identity::of(&found) != *held,
            Err(error) => matches!(error.kind(), NotFound | NotADirectory),
        })
    }
}
