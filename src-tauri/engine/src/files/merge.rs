//! Two changes of one text, put together by lines.

use similar::{DiffOp, TextDiff};
use std::ops::Range;
use std::time::Duration;

/// How long each comparison may look for the shortest answer; then it takes a longer one, which can only meet more.
const DIFF_TIME: Duration = Duration::from_millis(500);

/// Lines of the base, and what stands in their place.
struct Hunk<'a> {
    lines: Range<usize>,
    new: &'a [&'a str],
}

/// Makes both changes of `base`, the one that came to `one` and the one that came to `other`. None when they meet: when
/// they change the same lines or lines that touch, in different ways.
pub fn merge(base: &str, one: &str, other: &str) -> Option<String> {
    let (base, one, other) = (lines(base), lines(one), lines(other));
    let (mut ours, mut theirs) =
        (hunks(&base, &one).into_iter().peekable(), hunks(&base, &other).into_iter().peekable());
    let mut merged = String::new();
    let mut at = 0;
    loop {
        let next = match (ours.peek(), theirs.peek()) {
            (None, None) => break,
            (Some(_), None) => ours.next(),
            (None, Some(_)) => theirs.next(),
            (Some(mine), Some(its)) if mine.lines == its.lines && mine.new == its.new => {
                theirs.next();
                ours.next()
            }
            (Some(mine), Some(its)) if mine.lines.end < its.lines.start => ours.next(),
            (Some(mine), Some(its)) if its.lines.end < mine.lines.start => theirs.next(),
            (Some(_), Some(_)) => return None,
        };
        let Some(Hunk { lines, new }) = next else { break };
        merged.extend(base[at..lines.start].iter().chain(new).copied());
        at = lines.end;
    }
    merged.extend(base[at..].iter().copied());
    Some(merged)
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn hunks<'a>(base: &[&str], new: &'a [&'a str]) -> Vec<Hunk<'a>> {
    let compared = TextDiff::configure().timeout(DIFF_TIME).diff_slices(base, new);
    let mut hunks = Vec::new();
    for op in compared.ops() {
        if !matches!(op, DiffOp::Equal { .. }) {
            hunks.push(Hunk { lines: op.old_range(), new: &new[op.new_range()] });
        }
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::merge;

    #[test]
    fn changes_that_do_not_meet_are_both_made() {
        let base = "a\nb\nc\nd\ne\n";
        for (one, other, both) in [
            (base, base, Some(base)),
            ("A\nb\nc\nd\ne\n", base, Some("A\nb\nc\nd\ne\n")),
            ("A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE\n", Some("A\nb\nc\nd\nE\n")),
            ("a\nb\nc\nd\n", "x\na\nb\nc\nd\ne\n", Some("x\na\nb\nc\nd\n")),
            // The same change twice is one.
            ("a\nb\nC\nd\ne\n", "a\nb\nC\nd\ne\n", Some("a\nb\nC\nd\ne\n")),
            ("a\nb\nC\nd\ne\n", "a\nb\nX\nd\ne\n", None),
            // Lines that touch were changed in sight of each other.
            ("a\nB\nc\nd\ne\n", "a\nb\nC\nd\ne\n", None),
            ("a\nb\nx\nc\nd\ne\n", "a\nb\ny\nc\nd\ne\n", None),
            ("a\nb\nc\nd\ne\nf", "a\nb\nc\nd\ne\ng", None),
            ("", "a\nb\nC\nd\ne\n", None),
        ] {
            assert_eq!(merge(base, one, other).as_deref(), both, "{one:?} {other:?}");
            assert_eq!(merge(base, other, one).as_deref(), both, "{other:?} {one:?}");
        }
    }
}
