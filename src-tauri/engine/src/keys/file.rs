//! The key file: keys as they are, in a file that only the person can read. It exists only when a person asked for it.

use super::KeyStore;
use crate::config::file;
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The name of the file in the data folder.
const FILE: &str = "keys.json";

/// The largest key file that is read, in bytes.
const MAX_FILE: u64 = 1024 * 1024;

pub(super) struct KeyFile {
    path: PathBuf,
    changing: Mutex<()>,
}

impl KeyFile {
    pub(super) fn new(data: &Path) -> Self {
        Self { path: data.join(FILE), changing: Mutex::default() }
    }

    fn all(&self) -> Result<BTreeMap<String, String>, String> {
        let unread =
            |why: &dyn std::fmt::Display| format!("the key file {} cannot be read ({why}).", self.path.display());
        match file::read(&self.path, MAX_FILE) {
            // What the parser would say could repeat a part of the file.
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|_| unread(&"it is damaged; remove it")),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(unread(&error)),
        }
    }

    /// Puts a whole new file in the place of the old one.
    fn put(&self, keys: &BTreeMap<String, String>) -> Result<(), String> {
        let unwritten =
            |error: std::io::Error| format!("the key file {} cannot be written ({error}).", self.path.display());
        if keys.is_empty() {
            return fs::remove_file(&self.path).map_err(unwritten);
        }
        let text = serde_json::to_string(keys).map_err(|error| unwritten(error.into()))?;
        let new = self.path.with_extension("new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(unwritten(error)),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options.open(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.and_then(|()| fs::rename(&new, &self.path)).map_err(unwritten)
    }

    fn alone(&self) -> std::sync::MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl KeyStore for KeyFile {
    fn read(&self, name: &str) -> Result<Option<SecretString>, String> {
        Ok(self.all()?.remove(name).map(SecretString::from))
    }

    fn write(&self, name: &str, key: &SecretString) -> Result<(), String> {
        let _alone = self.alone();
        let mut keys = self.all()?;
        keys.insert(name.to_owned(), key.expose_secret().to_owned());
        self.put(&keys)
    }

    fn remove(&self, name: &str) -> Result<bool, String> {
        let _alone = self.alone();
        let mut keys = self.all()?;
        if keys.remove(name).is_none() {
            return Ok(false);
        }
        self.put(&keys).map(|()| true)
    }
}
