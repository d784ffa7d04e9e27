//! What a tool's answer holds: the lines themselves, apart from what the tool says about them.

/// A tool's answer, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found<'a> {
    /// The lines, without what numbers or surrounds them.
    pub lines: Vec<&'a str>,
    /// How many there are beyond those that the tool showed.
    pub more: More,
    /// What the tool says about what it could not see.
    pub notes: Vec<&'a str>,
}

/// Whether a tool showed everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum More {
    /// It did.
    #[default]
    None,
    /// It left some out, and there are so many in all.
    Of(usize),
    /// It left some out.
    Some,
}

/// What a tool that did what it was asked has found.
pub fn found<'a>(tool: &str, text: &'a str) -> Found<'a> {
    match tool {
        "bash" => of_command(text),
        "read_file" => of_file(text),
        _ => of_search(text),
    }
}

/// Why a tool did not do what it was asked.
pub fn why<'a>(tool: &str, text: &'a str) -> &'a str {
    let said = if tool == "bash" { of_command(text) } else { Found::default() };
    let status = text.trim_end().lines().next_back().map(|line| line.trim_matches(['[', ']']));
    let first = if tool == "bash" { said.notes.first().or(said.lines.first()).copied().or(status) } else { None };
    first.or_else(|| text.trim().lines().next()).unwrap_or("no reason was given")
}

/// The output of a command. Behind it stands how it ended, and before that which processes it left.
fn of_command(text: &str) -> Found<'_> {
    let mut all: Vec<&str> = text.trim_end().lines().collect();
    let is_note = |line: &&str| line.starts_with('[') && line.ends_with(']');
    if all.last().is_some_and(is_note) {
        all.pop();
    }
    let mut found = Found::default();
    if let Some(left) = all.pop_if(|line| is_note(line) && line.contains(" still attached, pid ")) {
        found.notes.push(left);
    }
    if all == ["(no output)"] {
        return found;
    }
    let counted =
        |line: &&str| line.strip_prefix("(The first ")?.strip_suffix(".)")?.split_once(" of ")?.1.parse().ok();
    if let Some(total) = all.last().and_then(counted) {
        all.pop();
        found.more = More::Of(total);
    }
    for line in all {
        if ["find: ", "ls: ", "wc: ", "warning: ", "fatal: "].iter().any(|by| line.starts_with(by)) {
            found.notes.push(line);
        } else if line.starts_with("… ") && line.contains(" bytes left out; ") {
            found.more = More::Some;
        } else if !line.is_empty() || !found.lines.is_empty() {
            found.lines.push(line);
        }
    }
    found
}

/// The lines of a file, each behind its number.
fn of_file(text: &str) -> Found<'_> {
    let mut found = Found::default();
    for line in text.lines() {
        match line.split_once('\t') {
            Some((number, line)) if number.bytes().all(|byte| byte.is_ascii_digit()) => found.lines.push(line),
            _ if line.starts_with("(Lines ") && line.contains("Read on") => {
                let total = line.split(" of ").nth(1).and_then(|rest| rest.split_once('.')?.0.parse().ok());
                found.more = total.map_or(More::Some, More::Of);
            }
            // How its lines end, or that some were cut, is for who edits it.
            _ => {}
        }
    }
    found
}

/// Paths or hits, and behind them what was not seen.
fn of_search(text: &str) -> Found<'_> {
    let mut found = Found::default();
    for (at, line) in text.lines().enumerate() {
        let told = |begin: &str| line.starts_with(begin) && line.ends_with(')');
        let none = at == 0 && ["Nothing in ", "No line in "].iter().any(|begin| line.starts_with(begin));
        if (none && line.contains(" matches ")) || told("(To look in all folders below") {
            continue;
        }
        if told("(The first ") {
            let total = note(line).rsplit_once(" of ").and_then(|(_, total)| total.trim_end_matches('.').parse().ok());
            found.more = total.map_or(More::Some, More::Of);
        } else if told("(Stopped after ") {
            found.more = More::Some;
        } else if told("(The time was over") || (told("(") && line.ends_with(" could not be read.)")) {
            found.notes.push(note(line));
        } else if !line.is_empty() {
            found.lines.push(line);
        }
    }
    found
}

/// What a note tells, without its brackets and its advice to a model.
fn note(line: &str) -> &str {
    let inner = line.strip_prefix('(').and_then(|line| line.strip_suffix(')')).unwrap_or(line);
    inner.find(". ").map_or(inner, |end| &inner[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(lines: &[&'a str], more: More, notes: &[&'a str]) -> Found<'a> {
        Found { lines: lines.to_vec(), more, notes: notes.to_vec() }
    }

    #[test]
    fn what_a_tool_says_about_its_answer_is_no_part_of_what_it_found() {
        fn check(tool: &str, text: &str, want: Found<'_>) {
            assert_eq!(found(tool, text), want, "{text}");
        }
        check("bash", "a\n  b\n[exit 0 in 0.1 s]", of(&["a", "  b"], More::None, &[]));
        check("bash", "(no output)\n[exit 0 in 0.0 s]", of(&[], More::None, &[]));
        check("bash", "a\n(The first 1 of 30.)\n[exit 0 in 0.0 s]", of(&["a"], More::Of(30), &[]));
        check("bash", "[a]\n[exit 0 in 0.0 s]", of(&["[a]"], More::None, &[]));
        check("bash", "find: x: no\n7\n[exit 0 in 0.0 s]", of(&["7"], More::None, &["find: x: no"]));
        let left = "[1 process is still attached, pid 7: it runs on]";
        check("bash", &format!("a\n{left}\n[exit 0 in 0.0 s]"), of(&["a"], More::None, &[left]));
        let cut = "a\n… 9 bytes left out; to read them …\nb\n[exit 0 in 0.0 s]";
        check("bash", cut, of(&["a", "b"], More::Some, &[]));

        check("read_file", "1\ta\n2\t(b)\n", of(&["a", "(b)"], More::None, &[]));
        check("read_file", "(The file is empty.)\n", of(&[], More::None, &[]));
        check("read_file", "1\ta\n(Lines 1 to 1 of 50. Read on with offset 2.)", of(&["a"], More::Of(50), &[]));
        let huge = "1\ta\n(Lines 1 to 1 of a file of 9 bytes. Read on with offset 2.)";
        check("read_file", huge, of(&["a"], More::Some, &[]));
        check("read_file", "1\ta\n(Lines end in CR LF.)\n", of(&["a"], More::None, &[]));

        check("glob", "a\n(b)\n", of(&["a", "(b)"], More::None, &[]));
        let none = "Nothing in this folder matches *\n(To look in all folders below, put **/ before it.)\n";
        check("glob", none, of(&[], More::None, &[]));
        check("glob", "a\n(The first 1 of 30. Narrow the pattern to see the others.)\n", of(&["a"], More::Of(30), &[]));
        let unread = "No line in this folder matches x\n(1 files or folders could not be read.)\n";
        check("grep", unread, of(&[], More::None, &["1 files or folders could not be read."]));
        check("grep", "a:1:x\n(Stopped after 1 hits: there may be more. Narrow it.)", of(&["a:1:x"], More::Some, &[]));
    }

    #[test]
    fn a_reason_is_what_was_said_or_how_it_ended() {
        assert_eq!(why("bash", "fatal: no\n[exit 128 in 0.0 s]"), "fatal: no");
        assert_eq!(why("bash", "(no output)\n[exit 1 in 0.0 s]"), "exit 1 in 0.0 s");
        assert_eq!(why("glob", "Denied.\nMore."), "Denied.");
        assert_eq!(why("bash", "Denied by the person."), "Denied by the person.");
        assert_eq!(why("glob", ""), "no reason was given");
    }
}
