//! Server-sent events, bytes in, the data of whole events out. Only `data` matters to the protocols spoken here.
//!
//! It takes what real servers send: any line end, also one split over two reads, a byte order mark, comments, bytes
//! that are not UTF-8 (they become U+FFFD), and a last event that nothing terminates.

/// The most bytes of one event. A larger one is no reply to a request of ours.
const MAX_EVENT: usize = 16 * 1024 * 1024;

/// An event was larger than any reply can be.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLarge;

/// Turns bytes into events, however they were cut.
#[derive(Debug, Default)]
pub struct Decoder {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    past_first_line: bool,
    after_cr: bool,
}

impl Decoder {
    /// Takes the next bytes and answers the data of every event that they complete.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<String>, TooLarge> {
        let mut events = Vec::new();
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.line.extend_from_slice(&bytes[..end]);
            let line_end = bytes[end];
            bytes = &bytes[end + 1..];
            if line_end == b'\r' {
                match bytes.strip_prefix(b"\n") {
                    Some(rest) => bytes = rest,
                    None => self.after_cr = bytes.is_empty(),
                }
            }
            events.extend(self.end_line());
            self.check_size()?;
        }
        self.line.extend_from_slice(bytes);
        self.check_size()?;
        Ok(events)
    }

    /// The input is over: answers the data of an event that nothing terminated.
    pub fn finish(mut self) -> Option<String> {
        self.end_line().or_else(|| self.dispatch())
    }

    fn check_size(&self) -> Result<(), TooLarge> {
        if self.line.len() + self.data.len() > MAX_EVENT { Err(TooLarge) } else { Ok(()) }
    }

    fn end_line(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        let line = if self.past_first_line { &line[..] } else { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&line) };
        self.past_first_line = true;
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = match line.iter().position(|&byte| byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        if field == b"data" {
            if self.has_data {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
            self.has_data = true;
        }
        None
    }

    fn dispatch(&mut self) -> Option<String> {
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.has_data).then(|| String::from_utf8_lossy(&data).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> Vec<String> {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        for piece in pieces {
            events.extend(decoder.push(piece).unwrap());
        }
        events.extend(decoder.finish());
        events
    }

    #[test]
    fn an_event_is_the_same_however_its_bytes_are_cut() {
        let stream =
            "\u{feff}: hi\r\n\r\ndata: {\"a\":\r\ndata:\"ü\"}\r\n\r\nevent: x\rdata: 2\r\rdata\n\n:\n\ndata: last";
        let whole = decode(&[stream.as_bytes()]);
        assert_eq!(whole, ["{\"a\":\n\"ü\"}", "2", "", "last"]);
        for cut in 0..=stream.len() {
            assert_eq!(decode(&[&stream.as_bytes()[..cut], &stream.as_bytes()[cut..]]), whole, "cut at {cut}");
        }
        let single: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
        assert_eq!(decode(&single), whole);
    }

    #[test]
    fn bytes_that_are_not_text_lose_no_event() {
        assert_eq!(decode(&[b"data: a\xFFb\n\n", b"data: c\n\n"]), ["a\u{fffd}b", "c"]);
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut decoder = Decoder::default();
        decoder.push(b"data: ").unwrap();
        let piece = vec![b'x'; MAX_EVENT / 2];
        assert_eq!(decoder.push(&piece), Ok(vec![]));
        assert_eq!(decoder.push(&piece), Err(TooLarge));
    }
}
