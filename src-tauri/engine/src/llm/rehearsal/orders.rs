//! What a message to a child asks for, as far as a rehearsal understands.

use super::history::words;
use std::path::Path;

/// Something that a message asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// To end with what there is.
    Stop,
    /// To complete what was begun.
    GoOn,
    /// To look for this.
    Search(String),
    /// To look into this, which exists.
    Path { path: String, folder: bool },
    /// Something else: the words.
    Other(String),
}

/// What a message asks for, line by line; the whole of it when no line is understood. `cwd` is where paths start from.
pub fn read(text: &str, cwd: &Path) -> Vec<Order> {
    let orders: Vec<Order> = text.lines().filter_map(|line| order(line.trim(), cwd)).collect();
    if orders.is_empty() { vec![Order::Other(text.trim().to_owned())] } else { orders }
}

fn order(line: &str, cwd: &Path) -> Option<Order> {
    let quoted = ['"', '`'].iter().find_map(|quote| line.split(*quote).nth(1)).filter(|inner| !inner.trim().is_empty());
    if let Some(quoted) = quoted {
        return Some(path(quoted, cwd).unwrap_or_else(|| Order::Search(quoted.to_owned())));
    }
    if let Some(path) = line.split_whitespace().find_map(|word| {
        let word = word.trim_matches(|c: char| matches!(c, ',' | ';' | ':' | '!' | '?' | '(' | ')' | '\''));
        path(word, cwd).or_else(|| path(word.trim_end_matches('.'), cwd))
    }) {
        return Some(path);
    }
    for verb in ["look into ", "look in ", "look at ", "read "] {
        if let Some(named) = find_word(line, verb).and_then(|at| {
            let word = line[at + verb.len()..].split_whitespace().next()?;
            existing(word.trim_matches(|c: char| c.is_ascii_punctuation()), cwd)
        }) {
            return Some(named);
        }
    }
    for verb in ["look for ", "search for ", "grep for ", "grep "] {
        if let Some(at) = find_word(line, verb) {
            let what = line[at + verb.len()..].trim().trim_end_matches(['.', '!', '?']);
            if !what.is_empty() {
                return Some(Order::Search(what.to_owned()));
            }
        }
    }
    let says = |wanted: &[&str]| words(line).any(|(_, word)| wanted.iter().any(|want| word.eq_ignore_ascii_case(want)));
    if says(&["stop", "enough"]) {
        Some(Order::Stop)
    } else if says(&["continue", "resume"])
        || find_word(line, "go on").is_some()
        || find_word(line, "carry on").is_some()
    {
        Some(Order::GoOn)
    } else {
        None
    }
}

/// Where `phrase` stands in `line` at the beginning of a word, whatever its case.
fn find_word(line: &str, phrase: &str) -> Option<usize> {
    let starts = |at: usize| !line[..at].ends_with(char::is_alphanumeric);
    let is_there = |at: &usize| line[*at..].get(..phrase.len()).is_some_and(|part| part.eq_ignore_ascii_case(phrase));
    line.char_indices().map(|(at, _)| at).filter(|at| starts(*at)).find(is_there)
}

/// A word that names something below `cwd`, or elsewhere by its full path.
fn path(word: &str, cwd: &Path) -> Option<Order> {
    if !word.contains(['/', '.']) || word.bytes().all(|byte| matches!(byte, b'.' | b'/')) {
        return None;
    }
    existing(word, cwd)
}

fn existing(word: &str, cwd: &Path) -> Option<Order> {
    let kind = std::fs::metadata(cwd.join(word)).ok().filter(|_| !word.is_empty())?;
    Some(Order::Path { path: word.to_owned(), folder: kind.is_dir() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_understood_line_by_line() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("src")).unwrap();
        std::fs::write(folder.path().join("src/a.rs"), "").unwrap();
        let search = |what: &str| Order::Search(what.to_owned());
        let at = |path: &str, folder| Order::Path { path: path.to_owned(), folder };
        for (line, want) in [
            ("stop after this", Order::Stop),
            ("That is enough.", Order::Stop),
            ("Please go on", Order::GoOn),
            ("look for \"stop\"", search("stop")),
            ("Look for unwrap, too.", search("unwrap, too")),
            ("grep fn main", search("fn main")),
            ("see src/a.rs.", at("src/a.rs", false)),
            ("and `src/`?", at("src/", true)),
            ("Look into src, please.", at("src", true)),
            ("look into nothing", Order::Other("look into nothing".to_owned())),
            ("see src/gone.rs", Order::Other("see src/gone.rs".to_owned())),
            ("nonstop, e.g. and/or ...", Order::Other("nonstop, e.g. and/or ...".to_owned())),
            ("Grüße", Order::Other("Grüße".to_owned())),
        ] {
            assert_eq!(read(line, folder.path()), [want], "{line}");
        }
        assert_eq!(read("A note:\nstop\n\nlook for x\n", folder.path()), [Order::Stop, search("x")]);
    }
}
