//! Where a path really leads.

use crate::files::place;
use std::path::{Component, Path, PathBuf};

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

/// Finds where `path` leads from the folder `cwd`, as the tools do that open it.
///
/// # Errors
/// When it cannot be told, in a sentence; then no tool could use the path either.
pub fn resolve(cwd: &Path, path: &Path) -> Result<Place, String> {
    let text = path.to_str().ok_or_else(|| "The path is not valid UTF-8. Nothing was done.".to_owned())?;
    let place::Place { real, exists, .. } = place::resolve(cwd, text)?;
    let inside = std::fs::canonicalize(cwd).is_ok_and(|folder| real.starts_with(folder));
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
