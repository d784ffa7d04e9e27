//! What a write changed, for the person who looks at it.

use crate::text::cut;
use similar::{ChangeTag, TextDiff};
use std::time::Duration;

/// The longest diff that is given to the window, in bytes.
const MAX_DIFF: usize = 4 * 1024;

/// The longest diff that a person is asked about, in bytes.
const MAX_ASKED: usize = 256 * 1024;

/// How long a diff may look for the shortest answer; then it takes a longer one.
const DIFF_TIME: Duration = Duration::from_millis(300);

/// What differs between two texts, by lines.
pub struct Changes {
    /// Lines that only the new one has.
    pub added: usize,
    /// Lines that only the old one had.
    pub removed: usize,
    /// A unified diff. What is cut off says so.
    pub diff: String,
}

impl Changes {
    /// Compares two texts, for a row.
    pub fn between(old: &str, new: &str) -> Self {
        Self::within(old, new, MAX_DIFF, "")
    }

    /// Compares two texts, for a person who is to allow the change. A diff that is cut still tells two changes apart.
    pub fn to_allow(old: &str, new: &str) -> Self {
        Self::within(old, new, MAX_ASKED, &format!("; the whole is {}", super::hash(new.as_bytes())))
    }

    fn within(old: &str, new: &str, most: usize, whole: &str) -> Self {
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
            if diff.len() > most {
                let end = format!("\n... (the diff goes on{whole})\n");
                let kept = cut(&diff, most - end.len());
                diff = format!("{}{end}", &kept[..kept.rfind('\n').unwrap_or(kept.len())]);
                break;
            }
        }
        Self { added, removed, diff }
    }
}
