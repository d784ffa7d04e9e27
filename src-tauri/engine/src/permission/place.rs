//! Where a path really leads.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// The longest path that is looked at, in bytes. No system takes a longer one.
const MAX_PATH: usize = 4096;

/// Where keys and passwords are kept by convention, below the person's own folder.
const KEYS: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker/config.json",
    ".netrc",
    "_netrc",
    ".git-credentials",
    ".pgpass",
    ".my.cnf",
    ".npmrc",
    ".pypirc",
    ".vault-token",
    ".password-store",
    ".mozilla",
    ".thunderbird",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".terraform.d/credentials.tfrc.json",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".config/gh",
    ".config/hub",
    ".config/gcloud",
    ".config/git/credentials",
    ".config/rclone",
    ".config/sops",
    ".config/op",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    "Library/Keychains",
    "Library/Cookies",
];

/// What `/proc` shows of a process beyond its name: its environment and memory hold keys, and its links lead anywhere.
const OF_A_PROCESS: &[&str] = &["environ", "mem", "auxv", "maps", "smaps", "pagemap", "syscall", "stack"];

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The path with every link and `..` followed. What does not exist yet stands below what does.
    pub real: PathBuf,
    /// Whether something is there.
    pub exists: bool,
    /// Whether it is the folder that it was judged from, or something in it.
    pub inside: bool,
}

/// Why it cannot be told where a path leads. Shown, it continues a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// It is empty, too long, or holds a NUL character.
    Malformed,
    /// The folder that it starts from is gone or closed.
    NoFolder,
    /// It is a link to something that is not there.
    Dangling,
    /// It leads up out of something that is not there.
    AboveNothing,
    /// The system does not let it be followed.
    Closed(ErrorKind),
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("the path is empty, too long, or holds a NUL character"),
            Self::NoFolder => f.write_str("the session's folder is gone or cannot be entered"),
            Self::Dangling => f.write_str("it is a link to something that is not there"),
            Self::AboveNothing => f.write_str("a folder in it is not there, so nothing is above that"),
            Self::Closed(kind) => write!(f, "{kind}"),
        }
    }
}

impl std::error::Error for Unresolved {}

impl Place {
    /// Whether it is one of these, or in one. They need not exist, and may be links.
    pub fn is_in(&self, places: &[PathBuf]) -> bool {
        places.iter().any(|place| self.real.starts_with(place) || self.real.starts_with(furthest(place)))
    }

    /// Whether it belongs to the folder in which git keeps a repository.
    pub(super) fn is_gits_own(&self) -> bool {
        let own = |part: Component<'_>| part.as_os_str().eq_ignore_ascii_case(".git");
        self.real.components().any(own)
    }

    /// Whether it shows the memory or the environment of a process.
    pub(super) fn shows_a_process(&self) -> bool {
        let Ok(below) = self.real.strip_prefix("/proc") else { return false };
        let mut parts = below.components().map(|part| part.as_os_str().to_string_lossy());
        let first = parts.next();
        if first.as_deref() == Some("kcore") {
            return true;
        }
        let process = first.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        process && parts.any(|part| OF_A_PROCESS.contains(&&*part))
    }
}

/// Where keys and passwords are kept by convention, whether they exist or not. `home` is the person's own folder.
pub fn keys(home: &Path) -> Vec<PathBuf> {
    KEYS.iter().map(|below| home.join(below)).collect()
}

/// Finds where `path` leads from the folder `cwd`: every link is followed, also the last one. What opens the place must
/// follow no further link, or it could open another.
///
/// # Errors
/// When it cannot be told; then no tool could use the path either.
pub fn resolve(cwd: &Path, path: &Path) -> Result<Place, Unresolved> {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.is_empty() || bytes.len() > MAX_PATH || bytes.contains(&0) {
        return Err(Unresolved::Malformed);
    }
    let folder = std::fs::canonicalize(cwd);
    let mut real = match (&folder, path.is_absolute()) {
        (_, true) => PathBuf::new(),
        (Ok(folder), false) => folder.clone(),
        (Err(_), false) => return Err(Unresolved::NoFolder),
    };
    let mut exists = true;
    for part in path.components() {
        match part {
            Component::CurDir => continue,
            Component::ParentDir if !exists => return Err(Unresolved::AboveNothing),
            Component::ParentDir => {
                real.pop();
                continue;
            }
            other => real.push(other),
        }
        if !exists {
            continue;
        }
        match std::fs::symlink_metadata(&real) {
            Ok(_) => {
                real = std::fs::canonicalize(&real).map_err(|error| match error.kind() {
                    ErrorKind::NotFound => Unresolved::Dangling,
                    kind => Unresolved::Closed(kind),
                })?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => exists = false,
            Err(error) => return Err(Unresolved::Closed(error.kind())),
        }
    }
    let inside = folder.is_ok_and(|folder| real.starts_with(folder));
    Ok(Place { real, exists, inside })
}

/// The path with links followed as far as it exists.
fn furthest(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    for known in path.ancestors() {
        if let Ok(mut real) = std::fs::canonicalize(known) {
            real.extend(missing.iter().rev());
            return real;
        }
        missing.extend(known.file_name());
    }
    path.to_owned()
}
