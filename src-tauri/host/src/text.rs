//! Words for people: what models and tools wrote, made harmless for a terminal or a notification, and the forms that
//! the terminal and notifications share.

use coppice_engine::event::Receipt;

/// The text without anything that a terminal would obey: escape sequences, control characters, and marks that turn
/// the direction of text around. Line breaks and tabs stay.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\n' | '\t' => out.push(char),
            '\u{1b}' => skip_escape(&mut chars),
            '\u{9b}' => skip_control_sequence(&mut chars),
            _ if is_obeyed(char) => {}
            _ => out.push(char),
        }
    }
    out
}

/// The same in one line of at most `max` characters.
pub fn line(text: &str, max: usize) -> String {
    let plain = plain(text);
    let words: Vec<&str> = plain.split_whitespace().collect();
    cut(&words.join(" "), max)
}

/// The text as a person must see it before they allow it: what [`plain`] would leave out, and what cannot be seen, is
/// spelled (`\u{1b}`), so that nothing is hidden. Line breaks and tabs stay.
pub fn exact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\n' | '\t' => out.push(char),
            _ if is_obeyed(char) || is_unseen(char) => out.extend(char.escape_unicode()),
            _ => out.push(char),
        }
    }
    out
}

/// Lines of at most `width` columns that hold all of the text. What is not ASCII may be two columns wide.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for whole in text.split('\n') {
        let (mut line, mut used) = (String::new(), 0);
        for char in whole.chars().flat_map(|char| if char == '\t' { vec![' '; 4] } else { vec![char] }) {
            let cells = if char.is_ascii() { 1 } else { 2 };
            if used > 0 && used + cells > width {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(char);
            used += cells;
        }
        lines.push(line);
    }
    lines
}

/// JSON that no terminal obeys: what [`plain`] would leave out is escaped instead, so that nothing is lost.
pub fn plain_json(json: &str) -> String {
    if !json.contains(is_obeyed) {
        return json.to_owned();
    }
    let mut out = String::with_capacity(json.len());
    for char in json.chars() {
        if is_obeyed(char) {
            let mut units = [0; 2];
            for unit in char.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(char);
        }
    }
    out
}

/// At most `max` characters; what is left out is shown by an ellipsis.
pub fn cut(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(max.saturating_sub(1)).collect();
    out.push('…');
    out
}

fn is_obeyed(char: char) -> bool {
    char.is_control() || matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether nothing is seen of it, or of what stands beside it.
fn is_unseen(char: char) -> bool {
    matches!(char, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202f}' | '\u{2060}'..='\u{206f}')
        || matches!(char, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.next() {
        Some('[') => skip_control_sequence(chars),
        // Strings to the terminal: titles, links, clipboards. They end with a bell or with ESC \.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(char) = chars.next() {
                match char {
                    '\u{7}' | '\u{9c}' => return,
                    '\u{1b}' => {
                        if chars.peek() == Some(&'\\') {
                            chars.next();
                        }
                        return;
                    }
                    // A line break ends what was never meant as a sequence, so that no text is lost behind it.
                    '\n' => return,
                    _ => {}
                }
            }
        }
        // Two-part sequences such as the choice of a character set.
        Some('(' | ')' | '*' | '+' | '#' | '%' | ' ') => {
            chars.next();
        }
        _ => {}
    }
}

fn skip_control_sequence(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while let Some(char) = chars.peek().copied() {
        match char {
            '\u{20}'..='\u{3f}' => {
                chars.next();
            }
            '\u{40}'..='\u{7e}' => {
                chars.next();
                return;
            }
            _ => return,
        }
    }
}

/// A duration as people read it: "0.8 s", "48 s", "6 min", "1 h 04".
pub fn duration(ms: i64) -> String {
    match ms.max(0) {
        ms @ ..10_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        ms @ ..60_000 => format!("{} s", ms / 1000),
        ms @ ..3_600_000 => format!("{} min", ms / 60_000),
        ms => format!("{} h {:02}", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

/// "1 child", "3 children".
pub fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// A receipt, line by line.
pub fn receipt(receipt: &Receipt) -> Vec<String> {
    let label = line(&receipt.label, 80);
    let label = if label.is_empty() { receipt.what.clone() } else { label };
    let mut lines = vec![if receipt.ended.is_empty() && !receipt.processes.is_empty() {
        format!("Ended what was left of {label}, in {}.", duration(receipt.ms))
    } else if receipt.ended.is_empty() && receipt.what == "everything" {
        "Nothing ran.".to_owned()
    } else if receipt.ended.is_empty() {
        format!("Nothing ran in {label}.")
    } else {
        format!("Stopped {label}: {} ended in {}.", receipt.ended.len(), duration(receipt.ms))
    }];
    let item = |what: &str, item: &coppice_engine::event::ReceiptItem| {
        format!("  {what} {} {}", item.kind, line(&item.label, 80)).trim_end().to_owned()
    };
    lines.extend(receipt.ended.iter().map(|ended| item("ended", ended)));
    lines.extend(receipt.kept.iter().map(|kept| item("kept ", kept)));
    if !receipt.processes.is_empty() {
        let gone = receipt.processes.iter().filter(|process| process.gone).count();
        let pids: Vec<String> = receipt.processes.iter().map(|process| process.pid.to_string()).collect();
        let all = receipt.processes.len();
        lines.push(format!("  {gone} of {all} processes seen gone ({})", pids.join(", ")));
    }
    lines.extend(receipt.unconfirmed.iter().map(|what| format!("  not confirmed: {}", line(what, 200))));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_that_only_ended_what_was_left_does_not_say_that_nothing_ran() {
        let process = coppice_engine::event::ReceiptProcess { pid: 7, started_at: 0, gone: true };
        let ended =
            Receipt { what: "branch".into(), label: "go".into(), processes: vec![process], ..Receipt::default() };
        assert_eq!(receipt(&ended), ["Ended what was left of go, in 0.0 s.", "  1 of 1 processes seen gone (7)"]);
        assert_eq!(receipt(&Receipt { processes: vec![], ..ended }), ["Nothing ran in go."]);
    }

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        let check = |text: &str, expected: &str| assert_eq!(plain(text), expected, "{text:?}");
        check("plain\n\ttext é 木", "plain\n\ttext é 木");
        check("\x1b[31mred\x1b[0m", "red");
        check("\x1b[2J\x1b[1;1Hgone", "gone");
        check("\x1b]0;title\x07after", "after");
        check("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link");
        check("\x1b]52;c;bm8=\nnext line", "next line");
        check("\u{9b}31mred", "red");
        check("a\rb\x08c\x7f", "abc");
        check("\u{202e}reversed\u{2069}", "reversed");
        check("\x1b(0x\x1b", "x");
        check("\x1b[31", "");
        check("\x1b[é", "é");
    }

    #[test]
    fn what_is_to_be_allowed_hides_nothing() {
        assert_eq!(exact("a\x1b[2J\r\u{202e}b\u{200b}c\n\td"), "a\\u{1b}[2J\\u{d}\\u{202e}b\\u{200b}c\n\td");
        assert_eq!(wrap("abcdef\n\n\txy", 5), ["abcde", "f", "", "    x", "y"]);
        assert_eq!(wrap("木木木", 5), ["木木", "木"], "wide characters take two columns");
    }

    #[test]
    fn json_keeps_everything_and_commands_nothing() {
        let json = serde_json::to_string("\u{9b}31m\u{202e}\x7f\x1b").unwrap();
        let plain = plain_json(&json);
        assert!(plain.is_ascii(), "{plain}");
        assert_eq!(serde_json::from_str::<String>(&plain).unwrap(), "\u{9b}31m\u{202e}\x7f\x1b");
    }

    #[test]
    fn a_line_is_one_line_and_cut_on_a_character() {
        assert_eq!(line("a\n b\t\tc", 10), "a b c");
        assert_eq!(line("ééééé", 3), "éé…");
    }

    #[test]
    fn durations_read_as_in_the_window() {
        let said: Vec<String> = [0, 840, 9_999, 48_000, 360_000, 3_840_000].map(duration).into();
        assert_eq!(said, ["0.0 s", "0.8 s", "9.9 s", "48 s", "6 min", "1 h 04"]);
    }
}
