//! What a terminal would have shown, as plain text: no control sequences, of a line that was rewritten only its last
//! state. Memory stays flat however much comes.

use crate::text::cut;
use std::mem;

/// The longest line that is kept whole, in bytes; of longer ones as much of each end as half of it.
const LINE: usize = 32 * 1024;

/// Takes raw output in pieces of any size and gives plain text.
#[derive(Default)]
pub struct Terminal {
    /// The bytes of a character that has not come whole yet.
    partial: Vec<u8>,
    state: State,
    line: Ends,
    /// A carriage return came: what is written next replaces the line.
    returned: bool,
    /// The line has replaced an earlier state of itself.
    rewritten: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After the escape character.
    Escape,
    /// Within a control sequence.
    Control,
    /// Within a string that is meant for the terminal: a title, a link, the clipboard.
    Message,
    /// The same, after an escape character that may end it.
    MessageEscape,
}

impl Terminal {
    /// Takes output. Answers the lines that it completed, each with its line feed.
    pub fn feed(&mut self, bytes: &[u8]) -> String {
        let mut lines = String::new();
        let joined;
        let bytes = if self.partial.is_empty() {
            bytes
        } else {
            joined = [mem::take(&mut self.partial).as_slice(), bytes].concat();
            &joined
        };
        for chunk in bytes.utf8_chunks() {
            self.pieces(chunk.valid(), &mut lines);
            let invalid = chunk.invalid();
            let last = invalid.as_ptr_range().end == bytes.as_ptr_range().end;
            if last && is_beginning(invalid) {
                self.partial = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.character(char::REPLACEMENT_CHARACTER, &mut lines);
            }
        }
        lines
    }

    /// The line that is not complete yet.
    pub fn line(&self) -> String {
        let mut text = String::new();
        self.line.write(&mut text);
        text
    }

    /// Whether the line that is not complete yet has rewritten itself, as progress does.
    pub fn is_progress(&self) -> bool {
        self.rewritten || self.returned
    }

    /// The last line, when nothing comes any more.
    pub fn finish(mut self) -> String {
        if !self.partial.is_empty() {
            self.character(char::REPLACEMENT_CHARACTER, &mut String::new());
        }
        self.line()
    }

    /// Text of any length. What no terminal would act on goes through in one piece, not character by character.
    fn pieces(&mut self, mut text: &str, lines: &mut String) {
        while !text.is_empty() {
            let inert = if self.state == State::Text && !self.returned { inert(text) } else { 0 };
            let (piece, rest) = text.split_at(inert);
            self.piece(piece, lines);
            let mut rest = rest.chars();
            if let Some(character) = rest.next() {
                self.character(character, lines);
            }
            text = rest.as_str();
        }
    }

    /// Text without control characters but line feeds and tabs.
    fn piece(&mut self, text: &str, lines: &mut String) {
        let (Some(first), Some(last)) = (text.find('\n'), text.rfind('\n')) else {
            self.line.push_str(text);
            return;
        };
        self.line.push_str(&text[..first]);
        self.end_line(lines);
        let mut whole = &text[first + 1..=last];
        while !whole.is_empty() {
            // Lines that are not too long are not looked at one by one.
            if let Some(end) = cut(whole, LINE).rfind('\n') {
                lines.push_str(&whole[..=end]);
                whole = &whole[end + 1..];
            } else {
                let (line, rest) = whole.split_once('\n').unwrap_or((whole, ""));
                self.line.push_str(line);
                self.end_line(lines);
                whole = rest;
            }
        }
        self.line.push_str(&text[last + 1..]);
    }

    fn end_line(&mut self, lines: &mut String) {
        self.line.write(lines);
        lines.push('\n');
        self.line.clear();
        (self.returned, self.rewritten) = (false, false);
    }

    fn character(&mut self, character: char, lines: &mut String) {
        self.state = match (self.state, character) {
            (State::Text, _) => return self.text(character, lines),
            // A new line ends whatever a broken program left open.
            (_, '\n') => {
                self.state = State::Text;
                return self.text(character, lines);
            }
            // Cancel and substitute break a sequence off.
            (_, '\u{18}' | '\u{1a}') => State::Text,
            (State::Escape, '[') => State::Control,
            (State::Escape, ']' | 'P' | 'X' | '^' | '_') => State::Message,
            (State::Escape, ' '..='/') => State::Escape,
            (State::Escape, _) => State::Text,
            (State::Control, 'G') => {
                self.returned = true;
                State::Text
            }
            (State::Control, '@'..='~') => State::Text,
            (State::Control, '\u{1b}') | (State::MessageEscape, '\u{1b}') => State::Escape,
            (State::Control, _) => State::Control,
            (State::Message, '\u{7}' | '\u{9c}') | (State::MessageEscape, '\\') => State::Text,
            (State::Message, '\u{1b}') => State::MessageEscape,
            (State::Message | State::MessageEscape, _) => State::Message,
        };
    }

    fn text(&mut self, character: char, lines: &mut String) {
        match character {
            '\n' => self.end_line(lines),
            '\r' => self.returned = true,
            '\u{8}' => self.line.pop(),
            '\u{1b}' => self.state = State::Escape,
            '\u{9b}' => self.state = State::Control,
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => self.state = State::Message,
            '\t' => self.print(character),
            _ if character.is_control() => {}
            _ => self.print(character),
        }
    }

    fn print(&mut self, character: char) {
        if mem::take(&mut self.returned) {
            self.line.clear();
            self.rewritten = true;
        }
        self.line.push_str(character.encode_utf8(&mut [0; 4]));
    }
}

/// How many bytes of a text, from its beginning, no terminal acts on, but for line feeds and tabs. They end on a
/// character.
fn inert(text: &str) -> usize {
    // The last one begins the control characters beyond ASCII, and some others.
    let acts = |byte: u8| (byte < b' ' && byte != b'\n' && byte != b'\t') || byte == 0x7f || byte == 0xc2;
    let bytes = text.as_bytes();
    // Whole blocks are looked at without a branch for each byte.
    let clear = |block: &&[u8]| !block.iter().fold(false, |found, byte| found | acts(*byte));
    let blocks = bytes.chunks(64).take_while(clear).map(<[u8]>::len).sum::<usize>();
    bytes[blocks..].iter().position(|byte| acts(*byte)).map_or(bytes.len(), |at| blocks + at)
}

/// Whether these bytes may yet become a character.
fn is_beginning(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

/// Text of which the beginning and the end are kept.
#[derive(Default)]
struct Ends {
    head: String,
    tail: String,
    left_out: usize,
}

impl Ends {
    fn push_str(&mut self, text: &str) {
        let mut rest = text;
        if self.tail.is_empty() && self.left_out == 0 && self.head.len() < LINE / 2 {
            let (head, more) = text.split_at(text.ceil_char_boundary(LINE / 2 - self.head.len()));
            self.head.push_str(head);
            rest = more;
        }
        self.tail.push_str(rest);
        if self.tail.len() > LINE {
            self.trim();
        }
    }

    fn clear(&mut self) {
        self.head.clear();
        self.tail.clear();
        self.left_out = 0;
    }

    fn pop(&mut self) {
        if self.tail.pop().is_none() && self.left_out == 0 {
            self.head.pop();
        }
    }

    fn trim(&mut self) {
        let cut = self.tail.ceil_char_boundary(self.tail.len().saturating_sub(LINE / 2));
        self.tail.drain(..cut);
        self.left_out += cut;
    }

    /// Appends the text to `out`, with a word about what of it was left out.
    fn write(&self, out: &mut String) {
        let keep = self.tail.ceil_char_boundary(self.tail.len().saturating_sub(LINE / 2));
        out.push_str(&self.head);
        let left_out = self.left_out + keep;
        if left_out > 0 {
            out.push_str(&format!(" … {left_out} bytes of this line left out … "));
        }
        out.push_str(&self.tail[keep..]);
    }
}

/// Text for a model, of which the beginning and the end are kept, in pieces of any size.
pub struct Excerpt {
    head: String,
    tail: String,
    head_max: usize,
    tail_max: usize,
    left_out: usize,
}

impl Excerpt {
    /// Keeps at most this many bytes of each end.
    pub fn new(head_max: usize, tail_max: usize) -> Self {
        Self { head: String::new(), tail: String::new(), head_max, tail_max, left_out: 0 }
    }

    /// Appends.
    pub fn push(&mut self, text: &str) {
        let mut rest = text;
        if self.tail.is_empty() && self.left_out == 0 {
            let fits = cut(text, self.head_max - self.head.len());
            self.head.push_str(fits);
            rest = &text[fits.len()..];
        }
        let skipped = rest.ceil_char_boundary(rest.len().saturating_sub(self.tail_max));
        if skipped > 0 {
            self.left_out += self.tail.len() + skipped;
            self.tail.clear();
        }
        self.tail.push_str(&rest[skipped..]);
        if self.tail.len() > 2 * self.tail_max {
            self.trim();
        }
    }

    /// The text; `notice` says what stands for this many bytes that were left out.
    pub fn text(mut self, notice: impl FnOnce(usize) -> String) -> String {
        self.trim();
        let gap = if self.left_out > 0 { notice(self.left_out) } else { String::new() };
        format!("{}{gap}{}", self.head, self.tail)
    }

    fn trim(&mut self) {
        let cut = self.tail.ceil_char_boundary(self.tail.len().saturating_sub(self.tail_max));
        self.tail.drain(..cut);
        self.left_out += cut;
    }
}
