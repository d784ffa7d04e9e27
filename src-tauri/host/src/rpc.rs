//! The wire as lines of JSON: requests in, answers and frames out. Served on standard input and output
//! (`coppice rpc`) and on the data folder's socket.

use crate::commands::{self, Failed, TABLE};
use crate::host::Host;
use crate::stream::{Lines, Stream};
use crate::text;
use coppice_engine::error::Code;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The longest request, in bytes.
pub const MAX_LINE: usize = 16 * 1024 * 1024;
/// How many requests of one caller may overlap; more wait unread.
const MAX_OVERLAP: usize = 256;
/// How many lines may wait for a caller that does not read.
const QUEUE: usize = 64;
/// How long requests may go on after the end of input, before everything is shut down.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Deserialize)]
struct Request {
    cmd: String,
    #[serde(default)]
    args: Value,
}

/// What came in.
enum Line {
    Text(Vec<u8>),
    TooLong,
    End,
}

/// Serves one caller until the end of its input, until it no longer reads, or until the process is to end. What was
/// asked by then has [`GRACE`] to be answered; then `at_end` runs, and what it ends is still answered. The error is why
/// an answer could not be written.
pub async fn serve<R, W>(host: &Host, input: R, output: W, at_end: impl Future<Output = ()>) -> io::Result<()>
where
    R: AsyncBufRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (lines, queue) = mpsc::channel(QUEUE);
    let unread = CancellationToken::new();
    let done = CancellationToken::new();
    let stream = Arc::new(Stream::new(Lines(lines.clone())));
    let host = host.with_stream(stream.clone());
    let ((), written) = tokio::join!(
        async {
            requests(&host, &stream, input, lines, &unread, at_end).await;
            stream.end();
            drop((host, stream));
            done.cancel();
        },
        async {
            tokio::select! {
                written = write_lines(queue, output, &unread) => written,
                // A caller that does not read holds up nothing.
                () = async { done.cancelled().await; tokio::time::sleep(GRACE).await } => {
                    tracing::debug!("the caller does not read what is left to say");
                    Ok(())
                }
            }
        },
    );
    written
}

/// Answers the one request of a caller who may ask nothing.
pub async fn refuse<R: AsyncBufRead + Unpin, W: AsyncWrite + Unpin>(mut input: R, mut output: W, failed: Failed) {
    let told = async {
        let id = match read_line(&mut input, &mut Vec::new(), &mut false).await? {
            Line::Text(line) => parse(&line).map_or_else(|(id, _)| id, |(id, _)| id),
            Line::TooLong | Line::End => Value::Null,
        };
        output.write_all(format!("{}\n", json!({ "id": id, "error": failed })).as_bytes()).await?;
        output.flush().await
    };
    match tokio::time::timeout(GRACE, told).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a caller who was refused did not wait for the answer"),
        Err(_) => tracing::debug!("a caller who was refused asked nothing"),
    }
}

async fn requests<R: AsyncBufRead + Unpin>(
    host: &Host,
    stream: &Stream,
    mut input: R,
    lines: mpsc::Sender<String>,
    unread: &CancellationToken,
    at_end: impl Future<Output = ()>,
) {
    let mut running = FuturesUnordered::new();
    let mut partial = Vec::new();
    let mut too_long = false;
    // Sending is part of the work: a caller that does not read holds up its own requests, never the end.
    let work = |line| async {
        let (line, subscribed) = match line {
            Some(text) => answer(host, text).await,
            None => too_large(),
        };
        // The writer is gone only when the caller no longer reads: `unread` tells that.
        let _ = lines.send(line).await;
        if subscribed {
            stream.begin();
        }
    };
    loop {
        tokio::select! {
            () = host.leaving.cancelled() => break,
            () = unread.cancelled() => break,
            Some(()) = running.next(), if !running.is_empty() => {}
            line = read_line(&mut input, &mut partial, &mut too_long), if running.len() < MAX_OVERLAP => match line {
                Ok(Line::Text(text)) => running.push(work(Some(text))),
                Ok(Line::TooLong) => running.push(work(None)),
                Ok(Line::End) => break,
                Err(error) => {
                    tracing::warn!(%error, "the input cannot be read any more");
                    break;
                }
            },
        }
    }
    let finish = async { while running.next().await.is_some() {} };
    tokio::pin!(finish);
    let finished = tokio::time::timeout(GRACE, &mut finish).await.is_ok();
    if finished {
        at_end.await;
    } else {
        let rest = async {
            at_end.await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            () = finish => {}
            () = rest => {}
        }
    }
}

/// An answer, and whether frames may follow it.
type Answer = (String, bool);

async fn answer(host: &Host, line: Vec<u8>) -> Answer {
    let (id, request) = match parse(&line) {
        Ok(request) => request,
        Err((id, failed)) => return (json!({ "id": id, "error": failed }).to_string(), false),
    };
    drop(line);
    match commands::dispatch(host, &request.cmd, request.args).await {
        Ok(ok) => (json!({ "id": id, "ok": ok }).to_string(), request.cmd == "subscribe"),
        Err(failed) => (json!({ "id": id, "error": failed }).to_string(), false),
    }
}

fn parse(line: &[u8]) -> Result<(Value, Request), (Value, Failed)> {
    let shape = r#"a request looks like {"id": 1, "cmd": "tree", "args": {}}"#;
    let value: Value = serde_json::from_slice(line)
        .map_err(|error| (Value::Null, Failed::bad_request(format!("This line is not JSON ({error}); {shape}."))))?;
    let id = match value.get("id") {
        Some(id @ (Value::Number(_) | Value::String(_))) => id.clone(),
        _ => {
            let message = format!("This line is no request, its `id` is neither a number nor a string; {shape}.");
            return Err((Value::Null, Failed::bad_request(message)));
        }
    };
    match serde_json::from_value(value) {
        Ok(request) => Ok((id, request)),
        Err(error) => Err((id, Failed::bad_request(format!("This line is no request ({error}); {shape}.")))),
    }
}

fn too_large() -> Answer {
    let message = format!("This line is longer than {MAX_LINE} bytes and was not read.");
    let failed = Failed { code: Code::TooLarge, message };
    (json!({ "id": null, "error": failed }).to_string(), false)
}

/// Reads one line. Cancelling it loses nothing: what came so far stays in `partial`.
async fn read_line<R: AsyncBufRead + Unpin>(
    input: &mut R,
    partial: &mut Vec<u8>,
    too_long: &mut bool,
) -> io::Result<Line> {
    loop {
        let buffer = input.fill_buf().await?;
        if buffer.is_empty() {
            let rest = std::mem::take(partial);
            return Ok(if std::mem::take(too_long) {
                Line::TooLong
            } else if rest.is_empty() {
                Line::End
            } else {
                Line::Text(rest)
            });
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        if *too_long || partial.len() + part.len() > MAX_LINE {
            *too_long = true;
            partial.clear();
        } else {
            partial.extend_from_slice(part);
        }
        let used = end.map_or(buffer.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            let line = std::mem::take(partial);
            return Ok(if std::mem::take(too_long) { Line::TooLong } else { Line::Text(line) });
        }
    }
}

async fn write_lines<W: AsyncWrite + Unpin>(
    mut queue: mpsc::Receiver<String>,
    mut output: W,
    unread: &CancellationToken,
) -> io::Result<()> {
    while let Some(line) = queue.recv().await {
        // It may be a terminal that reads: the JSON says the same.
        let mut line = text::plain_json(&line);
        line.push('\n');
        let written = async {
            output.write_all(line.as_bytes()).await?;
            output.flush().await
        };
        if let Err(error) = written.await {
            tracing::debug!(%error, "the caller no longer reads");
            unread.cancel();
            return Err(error);
        }
    }
    Ok(())
}

/// What `coppice rpc --help` says after its options: the wire, with every command of the table.
pub fn help() -> String {
    let mut out = String::from(
        "One request a line, as JSON: {\"id\": 1, \"cmd\": \"tree\", \"args\": {}}\n\
         One answer a line: {\"id\": 1, \"ok\": {...}} or {\"id\": 1, \"error\": {\"code\": \"...\", \"message\": \"...\"}}\n\
         After `subscribe`, pushes: {\"frame\": {...}}\n\
         Requests may overlap. A line that is no request is answered with a null id. Times are milliseconds since 1970.\n\
         Commands that change something take `key`, a string of your own: the same key twice does it once.\n\
         The end of input stops everything in order and ends the process.\n\nCommands:\n",
    );
    for row in TABLE {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {:<10} {}", row.name, row.what);
        let _ = writeln!(out, "  {:<10}   {} -> {}", "", fields(row.args), row.ok);
    }
    out.push_str("\nTypes:\n");
    out.push_str(&commands::types_text());
    out
}

fn fields(name: &str) -> &str {
    if name == "Nothing" { "{}" } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::BufReader;

    async fn lines_of(bytes: &[u8], capacity: usize) -> Vec<String> {
        let mut input = BufReader::with_capacity(capacity, bytes);
        let (mut partial, mut too_long) = (Vec::new(), false);
        let mut out = Vec::new();
        loop {
            match read_line(&mut input, &mut partial, &mut too_long).await.unwrap() {
                Line::Text(text) => out.push(String::from_utf8(text).unwrap()),
                Line::TooLong => out.push("(too long)".to_owned()),
                Line::End => return out,
            }
        }
    }

    #[tokio::test]
    async fn lines_come_whole_however_they_are_cut() {
        for capacity in [1, 2, 3, 64] {
            assert_eq!(lines_of(b"one\n\ntwo\nthr\xc3\xa9e", capacity).await, ["one", "", "two", "thr\u{e9}e"]);
        }
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_skipped_and_the_next_one_is_read() {
        let mut bytes = vec![b'x'; MAX_LINE + 1];
        bytes.extend_from_slice(b"\nnext\n");
        assert_eq!(lines_of(&bytes, 64 * 1024).await, ["(too long)", "next"]);
    }

    #[tokio::test]
    async fn a_caller_that_does_not_read_holds_up_neither_a_signal_nor_the_end_of_its_input() {
        let dir = tempfile::tempdir().unwrap();
        let engine = coppice_engine::Engine::open(dir.path(), Default::default()).await.unwrap();
        let host = Host::new(engine, dir.path().join("config.toml"), dir.path().to_owned());
        let asked = "{\"id\": 1, \"cmd\": \"about\"}\n".repeat(QUEUE * 3);
        for ends in [true, false] {
            // The other end of the output is kept, and never read; that of the input is kept when it is not to end.
            let (output, _unread) = tokio::io::duplex(16);
            let (mut theirs, input) = tokio::io::duplex(asked.len() + 1);
            theirs.write_all(asked.as_bytes()).await.unwrap();
            let _kept = if ends {
                drop(theirs);
                None
            } else {
                let leaving = host.leaving.clone();
                host.scope.spawn(async move { leaving.cancel() });
                Some(theirs)
            };
            let mut ended = false;
            let serving = serve(&host, BufReader::new(input), output, async { ended = true });
            tokio::time::timeout(GRACE * 5, serving).await.unwrap().unwrap();
            assert!(ended);
        }
        host.leave().await.unwrap();
    }

    #[test]
    fn a_line_that_is_no_request_is_refused_with_the_id_it_can_be_told_by() {
        let refused = |line: &str| parse(line.as_bytes()).err().map(|(id, failed)| (id, failed.code));
        assert_eq!(refused("nonsense"), Some((Value::Null, Code::BadRequest)));
        assert_eq!(refused("[1]"), Some((Value::Null, Code::BadRequest)));
        assert_eq!(refused(r#"{"cmd": "tree"}"#), Some((Value::Null, Code::BadRequest)));
        assert_eq!(refused(r#"{"id": 7}"#), Some((json!(7), Code::BadRequest)));
        assert_eq!(refused(r#"{"id": "a", "cmd": 1}"#), Some((json!("a"), Code::BadRequest)));
        assert_eq!(refused(r#"{"id": 1, "cmd": "tree"}"#), None);
    }

    #[test]
    fn the_help_names_every_command() {
        let help = help();
        for row in TABLE {
            assert!(help.contains(row.name), "{} is missing", row.name);
        }
    }
}
