//! Where the same folder can be seen more than once.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mount: which part of which file system is seen at which path.
pub(super) struct Mount {
    device: Vec<u8>,
    part: PathBuf,
    at: PathBuf,
}

/// All mounts that this process sees, in the order in which they were made.
pub(super) fn all() -> Vec<Mount> {
    let told = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    told.split(|byte| *byte == b'\n').filter_map(mount).collect()
}

/// A mount as the kernel tells of it: a number, its parent's, the device, the part of it, and where it is seen.
fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ').skip(2);
    Some(Mount { device: fields.next()?.to_vec(), part: path(fields.next()?), at: path(fields.next()?) })
}

/// A path in which the kernel wrote what separates fields as octal numbers.
fn path(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// The other places at which `path`, or a part of it, can be seen.
pub(super) fn aliases(mounts: &[Mount], path: &Path) -> Vec<PathBuf> {
    // Of mounts at one path, the last hides the others.
    let holds = |mount: &&Mount| path.starts_with(&mount.at);
    let Some(own) = mounts.iter().filter(holds).max_by_key(|mount| mount.at.components().count()) else {
        return Vec::new();
    };
    let Ok(below) = path.strip_prefix(&own.at) else { return Vec::new() };
    let inside = own.part.join(below);
    let seen = mounts.iter().filter(|mount| mount.device == own.device).filter_map(|mount| {
        match inside.strip_prefix(&mount.part) {
            Ok(rest) => Some(mount.at.join(rest)),
            Err(_) => mount.part.starts_with(&inside).then(|| mount.at.clone()),
        }
    });
    seen.filter(|alias| alias != path).collect()
}
