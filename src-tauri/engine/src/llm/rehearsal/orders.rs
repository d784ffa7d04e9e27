//! What a message to a child asks for, as far as a rehearsal understands.

use super::history::words;
use super::titles::is_text;
use std::path::Path;

/// What a message can be, for people.
pub const HOW: &str = "A message to me can be `stop`, `go on`, a path, a pattern like `*.rs`, or `look for WORDS`.";

/// What people say before what they want, and behind it.
const BEFORE: &str = "a all also an and any can could every for hello hey hi just kindly me named now occurrences of ok \
                      phrase please pls thanks that the then to too well with word words would yes you";
const BEHIND: &str = "also as instead just now ok please pls thank thanks then too well you";
/// What begins a wish for files or words, at the beginning of a line.
const VERBS: [&str; 10] =
    ["look for", "search for", "grep for", "check for", "search", "grep", "find", "count", "list", "show"];
/// Kinds of files that people call by another name.
const KINDS: [(&str, &str); 8] = [
    ("python", "py"),
    ("rust", "rs"),
    ("javascript", "js"),
    ("typescript", "ts"),
    ("markdown", "md"),
    ("text", "txt"),
    ("shell", "sh"),
    ("ruby", "rb"),
];

/// Something that a message asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// To end with what there is.
    Stop,
    /// To complete what was begun.
    GoOn,
    /// To look for this.
    Search(String),
    /// To look for files with such names.
    Files(String),
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
    if let Some(quoted) = quoted(line) {
        let path = path(quoted, cwd).or_else(|| pattern(quoted));
        return Some(path.unwrap_or_else(|| Order::Search(quoted.to_owned())));
    }
    let named = |word: &str| {
        let word = word.trim_matches(|c: char| matches!(c, ',' | ';' | ':' | '!' | '?' | '(' | ')' | '\''));
        path(word, cwd).or_else(|| path(word.trim_end_matches('.'), cwd)).or_else(|| pattern(word))
    };
    if let Some(named) = line.split_whitespace().find_map(named) {
        return Some(named);
    }
    for verb in ["look into ", "look in ", "look at ", "read "] {
        if let Some(named) = find_word(line, verb).and_then(|at| {
            let word = line[at + verb.len()..].split_whitespace().next()?;
            existing(word.trim_matches(|c: char| c.is_ascii_punctuation()), cwd)
        }) {
            return Some(named);
        }
    }
    if let Some(wanted) = wanted(line) {
        return Some(files(&wanted).unwrap_or_else(|| Order::Search(wanted.join(" "))));
    }
    let says = |wanted: &[&str]| words(line).any(|(_, word)| wanted.iter().any(|want| word.eq_ignore_ascii_case(want)));
    let phrase = |phrases: &[&str]| phrases.iter().any(|phrase| find_word(line, phrase).is_some());
    if says(&["continue", "resume"])
        || phrase(&["go on", "carry on", "don't stop", "don\u{2019}t stop", "do not stop", "never stop"])
    {
        Some(Order::GoOn)
    } else if says(&["stop", "enough"]) {
        Some(Order::Stop)
    } else {
        None
    }
}

/// What stands between the first two quotes of a line.
fn quoted(line: &str) -> Option<&str> {
    let between = |(open, close): &(char, char)| {
        let (_, rest) = line.split_once(*open)?;
        let (inner, _) = rest.split_once(*close)?;
        Some(inner.trim()).filter(|inner| !inner.is_empty())
    };
    [('"', '"'), ('`', '`'), ('\u{201c}', '\u{201d}'), ('\u{2018}', '\u{2019}')].iter().find_map(between)
}

/// What a line wants to be looked for, word by word, without what people say around it.
fn wanted(line: &str) -> Option<Vec<&str>> {
    let begun = ["look for ", "search for ", "grep for ", "grep "]
        .iter()
        .find_map(|verb| Some(find_word(line, verb)? + verb.len()));
    let rest = match begun {
        Some(at) => &line[at..],
        None => {
            let line = bare(line);
            let verb =
                VERBS.iter().find(|verb| find_word(line, verb) == Some(0) && line[verb.len()..].starts_with(' '))?;
            &line[verb.len()..]
        }
    };
    let all: Vec<&str> = rest.split_whitespace().collect();
    // Who asks for nothing but such a word asks for that word.
    let last = all.iter().rposition(|word| !is_of(BEHIND, word)).unwrap_or(all.len().checked_sub(1)?);
    let first = all[..last].iter().position(|word| !is_of(BEFORE, word)).unwrap_or(last);
    let mut wanted: Vec<&str> = all[first..=last].to_vec();
    if let Some(end) = wanted.last_mut() {
        *end = end.trim_end_matches(['.', ',', '!', '?', ';', ':', '\'']);
    }
    if let Some(begin) = wanted.first_mut() {
        *begin = begin.trim_start_matches('\'');
    }
    wanted.retain(|word| !word.is_empty());
    (!wanted.is_empty()).then_some(wanted)
}

/// A line from the first word that is no filler.
fn bare(line: &str) -> &str {
    let mut rest = line.trim_start();
    while let Some((word, after)) = rest.split_once(char::is_whitespace)
        && is_of(BEFORE, word)
    {
        rest = after.trim_start();
    }
    rest
}

fn is_of(fillers: &str, word: &str) -> bool {
    let word = word.trim_matches(|c: char| c.is_ascii_punctuation());
    fillers.split(' ').any(|filler| word.eq_ignore_ascii_case(filler))
}

/// Files of a kind, where the words that are wanted name one: `rst files`.
fn files(wanted: &[&str]) -> Option<Order> {
    let [kind, files] = wanted else { return None };
    if !["file", "files"].iter().any(|word| files.eq_ignore_ascii_case(word)) {
        return None;
    }
    let kind = kind.to_lowercase();
    let known = KINDS.iter().find(|(name, _)| *name == kind).map(|(_, suffix)| *suffix);
    let suffix = known.unwrap_or(&kind);
    if !suffix.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let is_suffix = known.is_some() || suffix.len() <= 3 || is_text(&format!("a.{suffix}"));
    Some(Order::Files(if is_suffix { format!("**/*.{suffix}") } else { format!("**/*{suffix}*") }))
}

/// A word that is a pattern of names: `*.rst`, `src/*`, or the suffix `.rst` alone.
fn pattern(word: &str) -> Option<Order> {
    let word = word.trim_end_matches('.');
    if word.contains('*') && word.contains(['.', '/']) && !word.contains(char::is_whitespace) {
        return Some(Order::Files(if word.contains('/') { word.to_owned() } else { format!("**/{word}") }));
    }
    let suffix = word.strip_prefix('.')?;
    let is_suffix = (1..=8).contains(&suffix.len()) && suffix.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_suffix.then(|| Order::Files(format!("**/*.{suffix}")))
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
        let files = |what: &str| Order::Files(what.to_owned());
        let at = |path: &str, folder| Order::Path { path: path.to_owned(), folder };
        for (line, want) in [
            ("stop after this", Order::Stop),
            ("That is enough.", Order::Stop),
            ("Please go on", Order::GoOn),
            ("look for \"stop\"", search("stop")),
            ("Look for unwrap, too.", search("unwrap")),
            ("grep fn main", search("fn main")),
            ("Look for the word Barry", search("Barry")),
            ("Could you also search for the phrase 'Barry Warsaw', please?", search("Barry Warsaw")),
            ("look for \u{201c}the end\u{201d}", search("the end")),
            ("Please find Barry", search("Barry")),
            ("look for plan a, thank you", search("plan a")),
            ("look for the", search("the")),
            ("I find this strange", Order::Other("I find this strange".to_owned())),
            ("Also look for rst files please", files("**/*.rst")),
            ("list all the Python files", files("**/*.py")),
            ("find text files", files("**/*.txt")),
            ("look for config files", files("**/*config*")),
            ("Please also count *.py", files("**/*.py")),
            ("and .rst?", files("**/*.rst")),
            ("look for `src/*.rs`", files("src/*.rs")),
            ("it is *important*", Order::Other("it is *important*".to_owned())),
            ("Please stop!", Order::Stop),
            ("Don't stop", Order::GoOn),
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
