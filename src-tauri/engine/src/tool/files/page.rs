//! A part of a text, line by line, reading no more than it needs.

use crate::text::cut;
use std::fmt::Write;
use std::io::{self, BufRead, ErrorKind};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How much of one line is shown, in bytes.
const MAX_LINE: usize = 2000;

/// How far the end of a line is looked for, in bytes.
const MAX_SPAN: u64 = 16 * 1024 * 1024;

/// How long the reading may take.
const MAX_TIME: Duration = Duration::from_secs(20);

/// How far into a text a NUL byte tells that it is none.
const SNIFF: u64 = 8 * 1024;

/// Which part is wanted.
pub struct Want {
    /// The first line, from 1.
    pub first: u64,
    /// How many lines at most.
    pub lines: u64,
    /// How many bytes at most.
    pub bytes: usize,
    /// Ends the reading.
    pub cancel: CancellationToken,
}

/// Why there is no part to show.
pub enum Problem {
    /// The call was stopped.
    Stopped,
    /// The first line is too far away.
    Slow,
    /// It is no text.
    Binary,
    /// The text ends before the first line.
    Past {
        /// How many lines it has.
        lines: u64,
    },
    /// The disk failed.
    Disk(io::Error),
}

/// A part of a text.
pub struct Page {
    text: String,
    first: u64,
    /// The line after the last one that is shown.
    next: u64,
    /// How many lines the text has, where that is known.
    total: Option<u64>,
    /// Whether a line was cut.
    cut: bool,
    /// Whether lines end in a carriage return.
    crlf: bool,
    /// Whether the last line was left before its end, so that nothing after it can be reached by number.
    endless: bool,
}

struct Line {
    start: Vec<u8>,
    len: u64,
    ended: bool,
}

/// Reads the part that is wanted. With `count` it goes on to the end to learn how many lines there are.
pub fn read(source: &mut impl BufRead, want: &Want, count: bool) -> Result<Page, Problem> {
    let mut lines = Lines { source, want, begun: Instant::now(), read: 0 };
    let (first, mut number) = (want.first, 1);
    while number < first {
        match lines.next(0, u64::MAX)? {
            Some(_) => number += 1,
            None => return Err(Problem::Past { lines: number - 1 }),
        }
    }
    let mut page =
        Page { text: String::new(), first, next: first, total: None, cut: false, crlf: false, endless: false };
    loop {
        let keep = if page.count() < want.lines { MAX_LINE } else { 0 };
        if keep == 0 && !count {
            // One byte more tells whether this is the end.
            if lines.fill()?.is_empty() {
                page.total = Some(number - 1);
            }
            return Ok(page);
        }
        let Some(line) = lines.next(keep, if count { u64::MAX } else { MAX_SPAN })? else {
            if number == first && first > 1 {
                return Err(Problem::Past { lines: number - 1 });
            }
            page.total = Some(number - 1);
            return Ok(page);
        };
        if keep > 0 && page.next == number && !page.push(number, line, want.bytes) && !count {
            return Ok(page);
        }
        if page.endless {
            return Ok(page);
        }
        number += 1;
    }
}

impl Page {
    /// How many lines are shown.
    pub fn count(&self) -> u64 {
        self.next - self.first
    }

    /// Adds a line, if there is room for it.
    fn push(&mut self, number: u64, mut line: Line, room: usize) -> bool {
        let whole = line.len == line.start.len() as u64;
        if whole && line.ended && line.start.last() == Some(&b'\r') {
            line.start.pop();
            self.crlf = true;
        }
        let text = prefix(&line.start, whole);
        let text = cut(&text, MAX_LINE);
        let text = if number == 1 { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text };
        let mut row = format!("{number}\t{text}");
        if !whole {
            self.cut = true;
            let more =
                if line.ended { format!("{} more bytes", line.len - text.len() as u64) } else { "more".to_owned() };
            // Writing to a string cannot fail.
            let _ = write!(row, " ... ({more} in this line)");
        }
        row.push('\n');
        if self.text.len() + row.len() > room {
            return false;
        }
        self.text.push_str(&row);
        self.next = number + 1;
        self.endless = !whole && !line.ended;
        true
    }

    /// The lines, and what has to be said about them. `bytes` is the size of the file.
    pub fn into_text(self, bytes: u64) -> String {
        let mut text = self.text;
        let (first, last, next) = (self.first, self.next.saturating_sub(1), self.next);
        let mut say = |what: String| {
            text.push_str(&what);
            text.push('\n');
        };
        match self.total {
            Some(0) => say("(The file is empty.)".to_owned()),
            Some(total) if last < total => {
                say(format!("(Lines {first} to {last} of {total}. Read on with offset {next}.)"));
            }
            Some(total) if first > 1 => say(format!("(Lines {first} to {last} of {total}.)")),
            Some(_) => {}
            None if self.endless => {
                say(format!("(Line {last} is longer than {MAX_SPAN} bytes. Look at the rest with a command.)"));
            }
            None => say(format!("(Lines {first} to {last} of a file of {bytes} bytes. Read on with offset {next}.)")),
        }
        if self.cut {
            say(format!("(Lines are cut after {MAX_LINE} bytes. See the rest with a command, for example cut -b.)"));
        }
        if self.crlf {
            say("(Lines end in CR LF.)".to_owned());
        }
        text
    }
}

struct Lines<'a, R> {
    source: &'a mut R,
    want: &'a Want,
    begun: Instant,
    read: u64,
}

impl<R: BufRead> Lines<'_, R> {
    /// The next line without its line feed, of which at most `keep` bytes are kept; none at the end. It is left
    /// before its end when it has more than `longest` bytes.
    fn next(&mut self, keep: usize, longest: u64) -> Result<Option<Line>, Problem> {
        let mut line = Line { start: Vec::new(), len: 0, ended: false };
        loop {
            let chunk = self.fill()?;
            if chunk.is_empty() {
                line.ended = true;
                return Ok((line.len > 0).then_some(line));
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            let room = keep.saturating_sub(line.start.len()).min(part.len());
            line.start.extend_from_slice(&part[..room]);
            line.len += part.len() as u64;
            let used = end.map_or(chunk.len(), |end| end + 1);
            self.source.consume(used);
            self.read += used as u64;
            line.ended = end.is_some();
            if line.ended || line.len > longest {
                return Ok(Some(line));
            }
        }
    }

    fn fill(&mut self) -> Result<&[u8], Problem> {
        if self.want.cancel.is_cancelled() {
            return Err(Problem::Stopped);
        }
        if self.begun.elapsed() > MAX_TIME {
            return Err(Problem::Slow);
        }
        while let Err(error) = self.source.fill_buf() {
            if error.kind() != ErrorKind::Interrupted {
                return Err(Problem::Disk(error));
            }
        }
        let chunk = self.source.fill_buf().map_err(Problem::Disk)?;
        let sniffed = SNIFF.saturating_sub(self.read).min(chunk.len() as u64) as usize;
        if chunk[..sniffed].contains(&0) {
            return Err(Problem::Binary);
        }
        Ok(chunk)
    }
}

/// The text of the start of a line; a character that the cut went through is left out.
fn prefix(bytes: &[u8], whole: bool) -> String {
    let kept = match std::str::from_utf8(bytes) {
        Err(error) if !whole && error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    };
    String::from_utf8_lossy(kept).into_owned()
}
