//! Files as agents and people change them: where a path really leads, handles that no link can divert, what stood in a
//! file before it was changed, and how two changes go together.

use crate::id::ContentHash;
use sha2::{Digest, Sha256};
use std::fmt::Write;

pub mod before;
pub mod changes;
pub mod handle;
pub mod merge;
pub mod place;

/// The largest file that is held whole: to notice changes by content, to edit, to keep what stood in it. In bytes.
pub const WHOLE: u64 = 8 * 1024 * 1024;

/// The name of a content.
pub fn hash(content: &[u8]) -> ContentHash {
    let mut name = String::with_capacity(64);
    for byte in Sha256::digest(content) {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    ContentHash(name)
}
