//! Landlock's rules for each confinement.
//!
//! The kernel judges a file by the path on which it was reached, and the same folder can be mounted in more than one
//! place. What is out of reach is therefore taken away wherever it can be seen.

use super::{Confinement, Support, mounts, places};
use crate::env;
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, Scope,
};
use libc::sock_filter;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, openat2};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The rules that are used where the kernel knows them.
const RULES: ABI = ABI::V6;

/// What shuts a command in, ready for the process that becomes it.
#[derive(Default)]
pub(in crate::process) struct Bars {
    /// Landlock's rules.
    pub ruleset: Option<OwnedFd>,
    /// The filter of system calls; empty when there is none.
    pub filter: Vec<sock_filter>,
}

pub(super) fn support() -> Support {
    static SUPPORT: OnceLock<Support> = OnceLock::new();
    *SUPPORT.get_or_init(|| {
        let knows = |abi: ABI| {
            let strict = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
            let strict = strict.handle_access(AccessFs::from_all(abi));
            let strict = strict.and_then(|rules| match Scope::from_all(abi) {
                scopes if scopes.is_empty() => Ok(rules),
                scopes => rules.scope(scopes),
            });
            strict.and_then(Ruleset::create).is_ok()
        };
        let generations = [(6, ABI::V6), (5, ABI::V5), (3, ABI::V3), (2, ABI::V2), (1, ABI::V1)];
        let landlock = generations.into_iter().find(|(_, abi)| knows(*abi)).map_or(0, |(number, _)| number);
        let answers = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
        let filter = !filter().is_empty() && ["errno", "kill_process"].iter().all(|answer| answers.contains(answer));
        Support { landlock, filter }
    })
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn filter() -> Vec<sock_filter> {
    super::filter::program()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn filter() -> Vec<sock_filter> {
    Vec::new()
}

/// Makes the bars of a confinement, as far as this kernel has them; [`Confinement::ReadOnly`] wholly or not at all. It
/// looks at the file system as it is now.
pub(in crate::process) fn bars(confinement: &Confinement) -> io::Result<Bars> {
    let support = support();
    if !support.holds(confinement) && matches!(confinement, Confinement::ReadOnly { .. }) {
        let why = "this kernel cannot make sure that it only reads; nothing was started";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    if *confinement == Confinement::None || support.landlock == 0 {
        return Ok(Bars::default());
    }
    let looks = matches!(confinement, Confinement::ReadOnly { .. });
    let ruleset = rules(confinement, looks).map_err(io::Error::other)?;
    let filter = if looks { filter() } else { Vec::new() };
    Ok(Bars { ruleset: ruleset.into(), filter })
}

fn rules(confinement: &Confinement, looks: bool) -> Result<RulesetCreated, landlock::RulesetError> {
    let all = AccessFs::from_all(RULES);
    let read = AccessFs::from_read(RULES);
    let mut ruleset = Ruleset::default().handle_access(all)?;
    if looks {
        ruleset = ruleset.scope(Scope::from_all(RULES))?;
    }
    let home = env::path("HOME").and_then(|home| home.canonicalize().ok());
    let at_home = |names: &[&str]| -> Vec<PathBuf> {
        home.iter().flat_map(|home| names.iter().map(|name| home.join(name))).collect()
    };
    let mut draft = Draft::new(ruleset.create()?);
    match confinement {
        Confinement::None => {}
        Confinement::Reach { out_of_reach } => {
            draft.close(out_of_reach);
            draft.grant(Path::new("/"), all)?;
        }
        Confinement::Folder { folder, out_of_reach } => {
            draft.close(out_of_reach);
            draft.grant(Path::new("/"), read)?;
            draft.grant(Path::new("/dev"), read | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev)?;
            let mut writable = vec![folder.clone()];
            writable.extend(places::repository(folder, home.as_deref()));
            writable.extend(at_home(&places::CACHES));
            draft.grant_each(&writable, all)?;
            draft.grant_around(home.as_deref(), &temporary(), all)?;
        }
        Confinement::ReadOnly { folder, out_of_reach } => {
            draft.close(out_of_reach);
            draft.close(&at_home(&places::KEYS));
            draft.close(&places::PRIVATE.map(PathBuf::from));
            draft.grant_each(&places::SINKS.map(PathBuf::from), read | AccessFs::WriteFile | AccessFs::Truncate)?;
            let mut own = vec![folder.clone()];
            own.extend(places::repository(folder, home.as_deref()));
            own.extend(at_home(&places::TOOLS));
            draft.grant_each(&own, read)?;
            let mut system = places::SYSTEM.map(PathBuf::from).to_vec();
            system.extend(temporary().into_iter().filter(|path| !path.starts_with("/dev")));
            draft.grant_around(home.as_deref(), &system, read)?;
            draft.grant(Path::new("/dev"), AccessFs::ReadDir.into())?;
        }
    }
    Ok(draft.ruleset)
}

/// The temporary folders. The one that the environment names is believed only where it is no home and above none.
fn temporary() -> Vec<PathBuf> {
    let home = env::path("HOME");
    let named = env::path("TMPDIR").filter(|named| !home.is_some_and(|home| home.starts_with(named)));
    places::TEMPORARY.iter().map(PathBuf::from).chain(named.filter(|path| path.is_absolute())).collect()
}

/// Rules on their way.
struct Draft {
    ruleset: RulesetCreated,
    mounts: Vec<mounts::Mount>,
    /// What is granted in no case, with every link resolved.
    closed: Vec<PathBuf>,
    /// The same as the kernel knows it: rules belong to files and folders, whatever path they were given for.
    closed_places: BTreeSet<Identity>,
    /// The folders above. A rule holds for everything below, so these are granted in no case either.
    above: BTreeSet<Identity>,
}

/// A file or folder: the device and its number there.
type Identity = (u64, u64);

fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

impl Draft {
    fn new(ruleset: RulesetCreated) -> Self {
        let (closed, closed_places, above) = Default::default();
        Self { ruleset, mounts: mounts::all(), closed, closed_places, above }
    }

    fn close(&mut self, paths: &[PathBuf]) {
        for path in paths.iter().map(|path| resolved(path)) {
            let aliases = mounts::aliases(&self.mounts, &path);
            for closed in aliases.into_iter().chain([path]) {
                self.closed_places.extend(rustix::fs::stat(&closed).as_ref().map(identity));
                let above = closed.ancestors().skip(1);
                self.above.extend(above.filter_map(|path| rustix::fs::stat(path).as_ref().map(identity).ok()));
                self.closed.push(closed);
            }
        }
    }

    fn grant_each(&mut self, paths: &[PathBuf], access: BitFlags<AccessFs>) -> Result<(), landlock::RulesetError> {
        paths.iter().try_for_each(|path| self.grant(path, access))
    }

    /// Grants access to these but not to the home, which may lie in one of them and is closed from here on. Where it is
    /// one of them, or above one, it is no person's.
    fn grant_around(
        &mut self,
        home: Option<&Path>,
        paths: &[PathBuf],
        access: BitFlags<AccessFs>,
    ) -> Result<(), landlock::RulesetError> {
        let home = home.filter(|home| !paths.iter().any(|path| path.starts_with(home)));
        self.close(&home.map(Path::to_owned).into_iter().collect::<Vec<_>>());
        self.grant_each(paths, access)
    }

    /// Grants access to a path and what is below it, but for what is closed. What is not there is not granted.
    fn grant(&mut self, path: &Path, access: BitFlags<AccessFs>) -> Result<(), landlock::RulesetError> {
        path.canonicalize().map_or(Ok(()), |path| self.below(&path, access))
    }

    fn below(&mut self, path: &Path, access: BitFlags<AccessFs>) -> Result<(), landlock::RulesetError> {
        if self.closed.iter().any(|closed| path.starts_with(closed)) {
            return Ok(());
        }
        // Exactly what has this name now, never what a link in it leads to. What cannot be opened is not granted.
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let Ok(place) = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) else { return Ok(()) };
        let Ok(stat) = rustix::fs::fstat(&place) else { return Ok(()) };
        let identity = identity(&stat);
        if self.closed_places.contains(&identity) {
            return Ok(());
        }
        let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let is_above = self.above.contains(&identity) || self.closed.iter().any(|closed| closed.starts_with(path));
        let granted = match (is_folder, is_above) {
            // Its list of names has to do.
            (true, true) => access & AccessFs::ReadDir,
            (true, false) => access,
            (false, _) => access & AccessFs::from_file(RULES),
        };
        if !granted.is_empty() {
            (&mut self.ruleset).add_rule(PathBeneath::new(place, granted))?;
        }
        if !is_above {
            return Ok(());
        }
        let Ok(entries) = std::fs::read_dir(path) else { return Ok(()) };
        for entry in entries.flatten() {
            // What a link leads to is granted or not where it is.
            if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                self.below(&entry.path(), access)?;
            }
        }
        Ok(())
    }
}

/// The path with every link in it resolved, as far as it is there.
fn resolved(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let Ok(real) = above.canonicalize() {
            // The rest is not there yet, so no link is in it.
            return path.strip_prefix(above).map_or(real.clone(), |rest| real.join(rest));
        }
    }
    path.to_owned()
}
