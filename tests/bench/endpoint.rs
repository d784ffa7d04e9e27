//! A model endpoint with a fixed delay: real HTTP over real sockets, kept alive between requests, in this process.
//!
//! A root is told to start children, a child to call a cheap tool a number of times and then to say that it is done.

use serde::Deserialize;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// How long every answer takes.
pub const DELAY: Duration = Duration::from_millis(50);

/// What the person says to the root, and how the prompt of a child begins; its number follows.
pub const PROMPT: &str = "Fan out.";
const PART: &str = "Part ";

/// The endpoint. It ends with the value.
pub struct Endpoint {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Where it runs.
    _runtime: Runtime,
}

struct Shared {
    children: usize,
    steps: usize,
    seen: Mutex<Seen>,
}

/// What came.
#[derive(Clone, Default)]
pub struct Seen {
    /// The first request of the root.
    pub root: Option<Vec<u8>>,
    /// The requests of child 0, in order.
    pub child: Vec<Vec<u8>>,
    pub requests: usize,
}

#[derive(Deserialize)]
struct Body {
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: Option<String>,
}

impl Endpoint {
    /// For `children` children that call a tool `steps` times.
    pub fn start(children: usize, steps: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { children, steps, seen: Mutex::default() });
        let accepting = shared.clone();
        runtime.spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                socket.set_nodelay(true).unwrap();
                tokio::spawn(serve(socket, accepting.clone()));
            }
        });
        Self { address, shared, _runtime: runtime }
    }

    /// The base address, as a configuration has it.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// What came since the last time.
    pub fn take(&self) -> Seen {
        std::mem::take(&mut *self.shared.seen.lock().unwrap())
    }
}

/// Serves one connection until the client closes it.
async fn serve(mut socket: TcpStream, shared: Arc<Shared>) {
    let mut bytes = Vec::new();
    while let Some(body) = request(&mut socket, &mut bytes).await {
        let due = tokio::time::Instant::now() + DELAY;
        let answer = shared.answer(body);
        tokio::time::sleep_until(due).await;
        if socket.write_all(&answer).await.is_err() {
            return;
        }
    }
}

/// The body of the next request; none at the end of the connection.
async fn request(socket: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if socket.read_buf(bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).expect("a request has a length");
    let length: usize = length.trim().parse().unwrap();
    while bytes.len() < end + length {
        if socket.read_buf(bytes).await.ok()? == 0 {
            return None;
        }
    }
    let rest = bytes.split_off(end + length);
    Some(std::mem::replace(bytes, rest).split_off(end))
}

impl Shared {
    fn answer(&self, bytes: Vec<u8>) -> Vec<u8> {
        let body: Body = serde_json::from_slice(&bytes).unwrap();
        let first = body.messages.iter().find(|message| message.role == "user").unwrap();
        let first = first.content.clone().unwrap_or_default();
        let results = body.messages.iter().filter(|message| message.role == "tool").count();
        let deltas = match first.strip_prefix(PART) {
            None if results == 0 => (0..self.children).map(delegation).collect(),
            Some(_) if results < self.steps => vec![call(0, "read_file", json!({ "path": "read.me" }))],
            _ => vec![json!({ "content": "That is all." })],
        };
        let mut seen = self.seen.lock().unwrap();
        seen.requests += 1;
        match first.strip_prefix(PART) {
            None if results == 0 => seen.root = Some(bytes),
            Some("0") => seen.child.push(bytes),
            _ => {}
        }
        drop(seen);
        response(&deltas)
    }
}

fn delegation(number: usize) -> Value {
    let args = json!({ "description": format!("part {number}"), "prompt": format!("{PART}{number}"),
        "run_in_background": true });
    call(number, "subagent", args)
}

fn call(index: usize, tool: &str, args: Value) -> Value {
    let function = json!({ "name": tool, "arguments": args.to_string() });
    json!({ "tool_calls": [{ "index": index, "id": format!("call_{index}"), "type": "function", "function": function }] })
}

/// A stream of these deltas, chunked as servers do.
fn response(deltas: &[Value]) -> Vec<u8> {
    let reason = if deltas.iter().any(|delta| delta.get("tool_calls").is_some()) { "tool_calls" } else { "stop" };
    let choice = |delta: &Value, reason: Option<&str>| json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] });
    let mut events: Vec<String> = deltas.iter().map(|delta| choice(delta, None).to_string()).collect();
    events.push(choice(&json!({}), Some(reason)).to_string());
    let usage = json!({ "prompt_tokens": 4000, "completion_tokens": 30, "total_tokens": 4030 });
    events.push(json!({ "choices": [], "usage": usage }).to_string());
    events.push("[DONE]".to_owned());
    let mut out = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for event in events {
        let event = format!("data: {event}\n\n");
        out.extend(format!("{:x}\r\n{event}\r\n", event.len()).into_bytes());
    }
    out.extend(b"0\r\n\r\n");
    out
}
