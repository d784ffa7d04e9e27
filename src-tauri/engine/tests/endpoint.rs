//! A model endpoint under the test's control: real HTTP over a real socket. It records every request with its time
//! and body, plays the bytes it is given with the write boundaries and pauses it is given, and notices when the
//! client closes the socket.

use coppice_engine::scope::Scope;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;

/// How long any condition is waited for before the test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// The endpoint. It ends with the value.
pub struct Endpoint {
    address: SocketAddr,
    state: Arc<State>,
    scope: Scope,
}

struct State {
    seen: Mutex<Vec<Seen>>,
    changed: watch::Sender<()>,
}

/// A request, as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When it was complete.
    pub at: Instant,
    /// The method and path: `POST /v1/chat/completions`.
    pub target: String,
    /// The headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body; null where it is no JSON.
    pub body: Value,
    /// When the client closed the socket before the play was over.
    pub closed: Option<Instant>,
}

/// What is sent back: writes and pauses. After the last one the socket is closed.
#[derive(Clone, Debug, Default)]
pub struct Play(Vec<Act>);

#[derive(Clone, Debug)]
enum Act {
    Write(Vec<u8>),
    Pause(Duration),
    Hang,
}

impl Play {
    /// The head of a response whose end is the end of the connection.
    pub fn head(status: u16, headers: &[(&str, &str)]) -> Self {
        let mut head = format!("HTTP/1.1 {status} Status\r\nconnection: close\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        Self::default().write(head + "\r\n")
    }

    /// A whole response.
    pub fn response(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        Self::head(status, headers).write(body)
    }

    /// The head of a stream.
    pub fn stream() -> Self {
        Self::head(200, &[("content-type", "text/event-stream")])
    }

    /// A stream of these chunks, one write each, without an end mark.
    pub fn chunks(chunks: &[Value]) -> Self {
        chunks.iter().fold(Self::stream(), |play, chunk| play.event(chunk))
    }

    /// A finished stream that says `text`.
    pub fn says(text: &str) -> Self {
        Self::chunks(&[delta(json!({"content": text})), finish("stop")]).done()
    }

    /// One event.
    pub fn event(self, chunk: &Value) -> Self {
        self.write(format!("data: {chunk}\n\n"))
    }

    /// The end mark.
    pub fn done(self) -> Self {
        self.write("data: [DONE]\n\n")
    }

    /// One write.
    pub fn write(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.0.push(Act::Write(bytes.into()));
        self
    }

    /// A pause.
    pub fn pause(mut self, pause: Duration) -> Self {
        self.0.push(Act::Pause(pause));
        self
    }

    /// Nothing more, with the socket open.
    pub fn hang(mut self) -> Self {
        self.0.push(Act::Hang);
        self
    }
}

/// A chunk with this delta.
pub fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

/// A chunk with this reason to finish.
pub fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

impl Endpoint {
    /// Starts one. `plan` tells what to play for the n-th request, counted from 0.
    pub async fn start(plan: impl Fn(usize, &Seen) -> Play + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State { seen: Mutex::default(), changed: watch::Sender::new(()) });
        let scope = Scope::new();
        let plan = Arc::new(plan);
        let (accepting, shared) = (scope.clone(), state.clone());
        scope.spawn(async move {
            let cancelled = accepting.token().clone();
            while let Some(Ok((socket, _))) = cancelled.run_until_cancelled(listener.accept()).await {
                let (state, plan, token) = (shared.clone(), plan.clone(), cancelled.clone());
                accepting.spawn(async move {
                    token.run_until_cancelled(serve(socket, &state, &*plan)).await;
                });
            }
        });
        Self { address, state, scope }
    }

    /// The base address, as a configuration has it.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The host and port, as people read it.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// What came so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }

    /// The bodies that came so far.
    pub fn bodies(&self) -> Vec<Value> {
        self.seen().into_iter().map(|seen| seen.body).collect()
    }

    /// Waits until what came fits.
    pub async fn until(&self, fits: impl Fn(&[Seen]) -> bool) -> Vec<Seen> {
        let mut changed = self.state.changed.subscribe();
        let wait = async {
            loop {
                let seen = self.seen();
                if fits(&seen) {
                    return seen;
                }
                changed.changed().await.unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("the endpoint never saw what the test waits for")
    }

    /// Waits until the client has closed the socket of the n-th request.
    pub async fn closed(&self, n: usize) -> Instant {
        self.until(|seen| seen.get(n).is_some_and(|seen| seen.closed.is_some())).await[n].closed.unwrap()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.scope.token().cancel();
    }
}

async fn serve(mut socket: TcpStream, state: &State, plan: &(impl Fn(usize, &Seen) -> Play + Send + Sync)) {
    let Some(request) = read_request(&mut socket).await else { return };
    let n = {
        let mut seen = state.seen.lock().unwrap();
        seen.push(request.clone());
        seen.len() - 1
    };
    state.changed.send_replace(());
    let (mut from, mut to) = socket.split();
    let play = async {
        for act in plan(n, &request).0 {
            match act {
                Act::Write(bytes) => to.write_all(&bytes).await?,
                Act::Pause(pause) => tokio::time::sleep(pause).await,
                Act::Hang => std::future::pending().await,
            }
        }
        to.shutdown().await
    };
    let mut rest = [0; 64];
    let closed = tokio::select! {
        played = play => played.is_err(),
        read = from.read(&mut rest) => matches!(read, Ok(0) | Err(_)),
    };
    if closed {
        state.seen.lock().unwrap()[n].closed = Some(Instant::now());
        state.changed.send_replace(());
    }
}

async fn read_request(socket: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let mut lines = head.lines();
    let target = lines.next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let header = |line: &str| line.split_once(':').map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
    let headers: BTreeMap<String, String> = lines.filter_map(header).collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    while bytes.len() < head_end + length {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = serde_json::from_slice(&bytes[head_end..]).unwrap_or_default();
    Some(Seen { at: Instant::now(), target, headers, body, closed: None })
}
