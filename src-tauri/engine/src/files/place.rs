//! Where a path really leads.

use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

/// The longest path that is looked at, in bytes. No system takes a longer one.
const MAX_PATH: usize = 4096;

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The canonical path. What does not exist yet is canonical as far as it exists.
    pub real: PathBuf,
    /// The path for people and models: relative when it is below the folder that it was resolved from.
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

/// Finds where `path` leads from the folder `cwd`, once: every link is followed here, and whoever opens the place
/// (`files::handle`) follows none. A link to nothing and a path through a file are refused; the error is a sentence for
/// people and models.
pub fn resolve(cwd: &Path, path: &str) -> Result<Place, String> {
    if path.is_empty() || path.contains('\0') {
        return Err("The path is empty or holds a NUL character. Give the path of a file.".to_owned());
    }
    if path.len() > MAX_PATH {
        return Err(format!("The path is longer than {MAX_PATH} bytes. Give the path of a file."));
    }
    let asked = Path::new(path);
    let folder = std::fs::canonicalize(cwd);
    let mut real = match (&folder, asked.is_absolute()) {
        (_, true) => PathBuf::new(),
        (Ok(folder), false) => folder.clone(),
        (Err(error), false) => {
            return Err(format!(
                "The folder {} of this session is gone or cannot be entered ({error}). Nothing was done. Use absolute \
                 paths, or have the folder put back.",
                cwd.display()
            ));
        }
    };
    let mut exists = true;
    for component in asked.components() {
        match component {
            Component::CurDir => continue,
            Component::ParentDir if !exists => {
                return Err(format!("{path} leads up out of a folder that is not there. Nothing was done."));
            }
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
                    let what = real.display();
                    return Err(format!("{what} is a link to something that is not there. Nothing was done."));
                }
                Err(error) => return Err(unusable(&real.display().to_string(), &error)),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(unusable(path, &error)),
        };
    }
    let below = folder.ok().and_then(|folder| real.strip_prefix(folder).ok().map(Path::to_owned));
    let shown = match below {
        Some(below) if below.as_os_str().is_empty() => ".".to_owned(),
        Some(below) => below.display().to_string(),
        None => real.display().to_string(),
    };
    Ok(Place { real, shown, exists })
}

/// What is said when the system refuses a path.
pub fn unusable(path: &str, error: &io::Error) -> String {
    if super::handle::met_link(error) {
        return format!(
            "{path} became a link, or its way leads over one now, while it was looked at. Nothing was done."
        );
    }
    let hint = match error.kind() {
        ErrorKind::NotADirectory => " A part of the path is a file, so nothing can be in it.",
        ErrorKind::PermissionDenied => " The rights of this user do not reach it.",
        _ => "",
    };
    format!("{path} cannot be used: {error}.{hint}")
}
