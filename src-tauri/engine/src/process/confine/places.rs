//! The places that confinement knows by name.

use std::path::{Path, PathBuf};

/// The system: programs, libraries, settings and state that hold nothing of a person's own.
pub(super) const SYSTEM: [&str; 22] = [
    "/bin",
    "/boot",
    "/etc",
    "/gnu",
    "/home/linuxbrew/.linuxbrew",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix",
    "/opt",
    "/proc",
    "/run",
    "/sbin",
    "/snap",
    "/sys",
    "/usr",
    "/var/cache",
    "/var/lib",
    "/var/log",
    "/dev/random",
    "/dev/urandom",
];

/// What of the system may be a person's own all the same.
pub(super) const PRIVATE: [&str; 2] = ["/run/secrets", "/run/user"];

/// Devices that take everything and keep nothing.
pub(super) const SINKS: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];

/// Where everybody may leave things for a while.
pub(super) const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Where keys and what else opens doors are kept in a home.
pub(super) const KEYS: [&str; 44] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".pgpass",
    ".my.cnf",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".vault-token",
    ".git-credentials",
    ".password-store",
    ".terraform.d",
    ".terraformrc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".mozilla",
    ".thunderbird",
    ".pki",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".node_repl_history",
    ".psql_history",
    ".config/gh",
    ".config/glab-cli",
    ".config/git/credentials",
    ".config/gcloud",
    ".config/op",
    ".config/rclone",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/Bitwarden",
    ".config/Signal",
    ".local/share/keyrings",
    ".local/share/kwalletd",
];

/// Tools in a home, and the settings without which they do not start.
pub(super) const TOOLS: [&str; 40] = [
    "bin",
    "go",
    "miniconda3",
    "anaconda3",
    ".asdf",
    ".bun",
    ".cargo",
    ".config/git",
    ".config/fish",
    ".deno",
    ".dotnet",
    ".elan",
    ".fnm",
    ".ghcup",
    ".gitconfig",
    ".gitignore",
    ".gitignore_global",
    ".inputrc",
    ".juliaup",
    ".linuxbrew",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pnpm",
    ".local/share/uv",
    ".local/state/nix",
    ".mix",
    ".nix-profile",
    ".nvm",
    ".opam",
    ".pyenv",
    ".rbenv",
    ".ripgreprc",
    ".rustup",
    ".sdkman",
    ".terminfo",
    ".volta",
    ".yarn",
];

/// What package managers keep in a home between one use and the next. None of it holds their settings or programs that
/// a person starts by name.
pub(super) const CACHES: [&str; 24] = [
    ".bun/install/cache",
    ".bundle/cache",
    ".cabal/packages",
    ".cache",
    ".cargo/.global-cache",
    ".cargo/.package-cache",
    ".cargo/.package-cache-mutate",
    ".cargo/git",
    ".cargo/registry",
    ".conan2/p",
    ".composer/cache",
    ".gradle/caches",
    ".gradle/daemon",
    ".gradle/native",
    ".gradle/wrapper",
    ".hex",
    ".ivy2/cache",
    ".local/share/pnpm/store",
    ".m2/repository",
    ".npm",
    ".nuget/packages",
    ".pnpm-store",
    ".pub-cache",
    "go/pkg",
];

/// The part of a repository that lies outside of the folder that belongs to it: where the folder is a worktree of its
/// own, the common part; where it is below the top, what stands there. A worktree is believed only when the repository
/// knows it too: the file that names the repository is the folder's, and whoever writes in the folder can write it.
pub(super) fn repository(folder: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    let top = folder.ancestors().find(|above| above.join(".git").symlink_metadata().is_ok())?;
    let link = top.join(".git");
    let kind = link.symlink_metadata().ok()?.file_type();
    if kind.is_dir() {
        let inside = top == folder;
        return (!inside && top.parent().is_some() && Some(top) != home).then_some(link);
    }
    if !kind.is_file() {
        return None;
    }
    let named = std::fs::read_to_string(&link).ok()?;
    let own = top.join(named.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    let back = std::fs::read_to_string(own.join("gitdir")).ok()?;
    let back = own.join(back.trim()).canonicalize().ok()?;
    let common = own.parent().filter(|parent| parent.ends_with("worktrees"))?.parent()?;
    let is_repository = ["HEAD", "objects", "refs"].iter().all(|part| common.join(part).exists());
    (is_repository && back == link.canonicalize().ok()?).then(|| common.to_owned())
}
