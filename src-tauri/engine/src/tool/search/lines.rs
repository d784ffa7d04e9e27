//! Lines of a file that match.

use super::{End, Watch};
use crate::files::handle;
use crate::text::cut;
use crate::tool::Outcome;
use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch};
use std::io::{self, Read};
use std::path::Path;

/// How much of a line is shown, in bytes.
const MAX_LINE: usize = 400;

/// How much of a long line is shown before its match, in bytes.
const LEAD: usize = 100;

/// The longest line that is searched, in bytes.
const MAX_HEAP: usize = 16 * 1024 * 1024;

/// The largest compiled pattern, in bytes.
const MAX_PATTERN: usize = 8 * 1024 * 1024;

/// A pattern, ready to search.
pub struct Search {
    matcher: RegexMatcher,
    searcher: Searcher,
}

/// What was found so far.
pub struct Found {
    /// The lines.
    pub text: String,
    /// How many lines matched.
    pub hits: u64,
    /// In how many files.
    pub files: u64,
    limit: u64,
    room: usize,
    full: bool,
}

impl Search {
    /// Reads the pattern, or says what is wrong with it.
    pub fn new(pattern: &str, ignore_case: bool, context: usize) -> Result<Self, Outcome> {
        if pattern.is_empty() || pattern.contains('\n') {
            return Err(Outcome::fail(
                "The pattern is empty or goes over the end of a line. Give one that fits one line.",
            ));
        }
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(ignore_case)
            .multi_line(true)
            .crlf(true)
            .size_limit(MAX_PATTERN)
            .build(pattern)
            .map_err(|error| {
                let error = error.to_string();
                Outcome::fail(format!(
                    "The pattern is no regular expression that can be searched for: {}\n\
                     To find ( ) [ ] {{ }} . * + ? ^ $ | \\ as they stand, put \\ before them. Look-around and back \
                     references do not exist, and a match cannot go over the end of a line.",
                    cut(&error, 1000)
                ))
            })?;
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .line_terminator(LineTerminator::crlf())
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_HEAP))
            .before_context(context)
            .after_context(context)
            .build();
        Ok(Self { matcher, searcher })
    }

    /// Searches one file, called `name` in the result.
    pub fn file(&mut self, path: &Path, name: &str, watch: &Watch, found: &mut Found) -> io::Result<()> {
        // Found over no link; one that took its place since is refused.
        let file = handle::open(path)?;
        // It may have become something else since it was listed.
        if file.metadata()?.is_file() { self.text(file, name, watch, found) } else { Ok(()) }
    }

    fn text(&mut self, file: impl Read, name: &str, watch: &Watch, found: &mut Found) -> io::Result<()> {
        let (hits, length) = (found.hits, found.text.len());
        let mut sink = Hits { matcher: &self.matcher, name, found, binary: false };
        let searched = self.searcher.search_reader(&self.matcher, Watched { file, watch }, &mut sink);
        if sink.binary {
            found.text.truncate(length);
            found.hits = hits;
            found.full = false;
        }
        found.files += u64::from(found.hits > hits);
        searched
    }
}

impl Found {
    /// Nothing so far; at most `limit` hits and `room` bytes.
    pub fn new(limit: u64, room: usize) -> Self {
        Self { text: String::new(), hits: 0, files: 0, limit, room, full: false }
    }

    /// Whether it takes no more.
    pub fn full(&self) -> bool {
        self.full
    }

    fn push(&mut self, line: &str) -> bool {
        self.full |= self.text.len() + line.len() > self.room;
        if !self.full {
            self.text.push_str(line);
        }
        !self.full
    }
}

/// A file whose reading ends when the search does.
struct Watched<'a, R> {
    file: R,
    watch: &'a Watch,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.watch.over() {
            Some(End::Stopped | End::Slow | End::Full) => Err(io::Error::other("the search is over")),
            None => self.file.read(buffer),
        }
    }
}

struct Hits<'a> {
    matcher: &'a RegexMatcher,
    name: &'a str,
    found: &'a mut Found,
    binary: bool,
}

impl Hits<'_> {
    fn line(&mut self, number: Option<u64>, mark: char, bytes: &[u8], start: usize) -> bool {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let text = excerpt(bytes, start);
        let number = number.unwrap_or(0);
        self.found.push(&format!("{}{mark}{number}{mark}{text}\n", self.name))
    }
}

impl Sink for Hits<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, hit: &SinkMatch<'_>) -> io::Result<bool> {
        if self.found.hits == self.found.limit {
            self.found.full = true;
            return Ok(false);
        }
        let start = self.matcher.find(hit.bytes()).ok().flatten().map_or(0, |found| found.start());
        let goes_on = self.line(hit.line_number(), ':', hit.bytes(), start);
        self.found.hits += u64::from(goes_on);
        Ok(goes_on)
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.line(around.line_number(), '-', around.bytes(), 0))
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        Ok(self.found.push("--\n"))
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.binary = end.binary_byte_offset().is_some();
        Ok(())
    }
}

/// The part of a line that is shown: its start, or what is around its match when that is far in.
fn excerpt(bytes: &[u8], start: usize) -> String {
    if bytes.len() <= MAX_LINE {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let from = if start > MAX_LINE / 2 { start - LEAD } else { 0 };
    // A window in bytes, a little wider than what is shown, so that long lines are not copied whole.
    let window = String::from_utf8_lossy(&bytes[from..bytes.len().min(from + MAX_LINE + 4)]).into_owned();
    let window = if from > 0 { window.trim_start_matches('\u{fffd}') } else { &window };
    let shown = cut(window, MAX_LINE);
    let before = if from > 0 { "... " } else { "" };
    format!("{before}{shown} ... ({} bytes in this line)", bytes.len())
}

#[cfg(test)]
mod tests {
    use super::{Found, Search};
    use crate::tool::search::{End, Watch};
    use std::io::{self, Read};
    use std::time::Instant;
    use tokio_util::sync::CancellationToken;

    /// A file without an end, whose search is stopped at the third read.
    struct Endless {
        reads: u32,
        cancel: CancellationToken,
    }

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.reads += 1;
            if self.reads == 3 {
                self.cancel.cancel();
            }
            assert!(self.reads < 100, "nobody stopped");
            buffer.fill(b'\n');
            Ok(buffer.len())
        }
    }

    #[test]
    fn a_search_is_stopped_inside_a_file_without_an_end() {
        let cancel = CancellationToken::new();
        let watch = Watch { cancel: cancel.clone(), begun: Instant::now() };
        let mut found = Found::new(1, 100);
        let mut search = Search::new("needle", false, 0).unwrap();
        let endless = Endless { reads: 0, cancel };
        assert!(search.text(endless, "endless", &watch, &mut found).is_err());
        assert_eq!((watch.over(), found.hits), (Some(End::Stopped), 0));
    }
}
