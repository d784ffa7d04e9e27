//! The facts that matter in what a look found, in a sentence or two.

use super::result::{Found, More};
use super::titles::{CHANGES, EVERYTHING, IN_ALL, IN_ORDER, KINDS, NO_REPOSITORY, NOTES_LEFT, sized};

/// What the line of facts in an answer begins with, so that the owner can put them first.
pub const BEGIN: &str = "In short: ";

/// The facts in what the steps of a look have found, by their titles; none where there are none.
pub fn of(seen: &[(&str, Found<'_>)]) -> Option<String> {
    let facts: Vec<String> = seen.iter().filter_map(|(title, found)| fact(title, found)).collect();
    (!facts.is_empty()).then(|| facts.join(" "))
}

fn fact(title: &str, found: &Found<'_>) -> Option<String> {
    let first = found.lines.first().copied();
    match title {
        IN_ALL => {
            let (files, bytes) = first?.split_once(", ")?;
            let bytes = bytes.strip_suffix(" bytes")?.parse().ok()?;
            Some(format!("{files}, {} in all.", size(bytes)))
        }
        IN_ORDER => {
            let bytes = first?.trim_start().split(' ').next()?.parse().ok()?;
            Some(format!("The largest is `{}` ({}).", sized(first?)?, size(bytes)))
        }
        EVERYTHING => Some(format!("Files and folders: {}.", how_many(found))),
        KINDS => {
            let (count, kind) = first?.split_once(' ')?;
            Some(format!("The most frequent kind is `{kind}` ({count}), of {}.", how_many(found)))
        }
        NOTES_LEFT => Some(format!("Open ends (TODO, FIXME or XXX): {}.", how_many(found))),
        CHANGES if first == Some(NO_REPOSITORY) || (first.is_none() && !found.notes.is_empty()) => None,
        CHANGES => Some(format!("Changes not committed: {}.", how_many(found))),
        _ => None,
    }
}

fn how_many(found: &Found<'_>) -> String {
    match found.more {
        More::None if found.lines.is_empty() => "none".to_owned(),
        More::None => found.lines.len().to_string(),
        More::Of(all) => all.to_string(),
        More::Some => format!("more than {}", found.lines.len()),
    }
}

/// A size for people, with one digit behind the point where it is rounded.
fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{}.{} {name}", bytes / unit, bytes % unit / (unit / 10)),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facts_are_what_was_counted_and_no_more() {
        let found = |lines: &[&'static str], more| Found { lines: lines.to_vec(), more, notes: Vec::new() };
        let seen = [
            (IN_ALL, found(&["12 files, 3456789 bytes"], More::None)),
            (IN_ORDER, found(&["  900 ./a b.bin", "7 ./c"], More::Of(12))),
            (KINDS, found(&["7 .rs"], More::Of(9))),
            (NOTES_LEFT, found(&["a", "b"], More::Some)),
            (CHANGES, found(&[], More::None)),
        ];
        let want = "12 files, 3.4 MB in all. The largest is `a b.bin` (900 bytes). The most frequent kind is `.rs` \
                    (7), of 9. Open ends (TODO, FIXME or XXX): more than 2. Changes not committed: none.";
        assert_eq!(of(&seen).as_deref(), Some(want));
        assert_eq!(of(&[(CHANGES, found(&[NO_REPOSITORY], More::None)), ("x", found(&["y"], More::None))]), None);
        assert_eq!(
            [0, 999, 1000, 99_999, 5_000_000_000_000].map(size),
            ["0 bytes", "999 bytes", "1.0 kB", "99.9 kB", "5000.0 GB"]
        );
    }
}
