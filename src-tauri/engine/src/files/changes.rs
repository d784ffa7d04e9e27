//! What a write changed, for the person who looks at it.

use crate::text::cut;
use similar::{ChangeTag, TextDiff};
use std::time::Duration;

/// The longest diff that is given to the window, in bytes.
const MAX_DIFF: usize = 4 * 1024;

/// How long a diff may look for the shortest answer; then it takes a longer one.
const DIFF_TIME: Duration = Duration::from_millis(300);

/// What differs between two texts, by lines.
pub struct Changes {
    /// Lines that only the new one has.
    pub added: usize,
    /// Lines that only the old one had.
    pub removed: usize,
    /// A unified diff, cut after [`MAX_DIFF`] bytes.
    pub diff: String,
}

impl Changes {
    /// Compares two texts.
    pub fn between(old: &str, new: &str) -> Self {
        let compared = TextDiff::configure().timeout(DIFF_TIME).diff_lines(old, new);
        let (mut added, mut removed) = (0, 0);
        for change in compared.iter_all_changes() {
            match change.tag() {
                ChangeTag::Insert => added += 1,
                ChangeTag::Delete => removed += 1,
                ChangeTag::Equal => {}
            }
        }
        let mut diff = String::new();
        for hunk in compared.unified_diff().context_radius(3).iter_hunks() {
            diff.push_str(&hunk.to_string());
            if diff.len() > MAX_DIFF {
                const END: &str = "\n... (the diff goes on)\n";
                let kept = cut(&diff, MAX_DIFF - END.len());
                diff = format!("{}{END}", &kept[..kept.rfind('\n').unwrap_or(kept.len())]);
                break;
            }
        }
        Self { added, removed, diff }
    }
}
