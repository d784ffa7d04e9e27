//! The wire from the other side: what the terminal's commands speak, to this process or to the one that holds the
//! data folder.

use crate::commands::Failed;
use crate::host::Host;
use crate::rpc;
use coppice_engine::error::Code;
use coppice_engine::scope::Scope;
use coppice_engine::view::Frame;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Notify, mpsc, oneshot};

type Waiting = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Result<Value, Failed>>>>>>;

/// A caller. Clones share the connection.
#[derive(Clone)]
pub struct Client {
    lines: mpsc::Sender<String>,
    waiting: Waiting,
    frames: Arc<Pending>,
    next: Arc<AtomicU64>,
    /// Ends the connection's tasks with the last clone.
    _scope: Arc<Ending>,
}

/// What frames told that nobody took yet, merged, so that a slow reader holds up neither answers nor memory.
#[derive(Default)]
struct Pending {
    frame: Mutex<Option<Frame>>,
    came: Notify,
}

struct Ending(Scope);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.token().cancel();
    }
}

impl Client {
    /// A caller over these two ends of a connection.
    pub fn new<R, W>(input: R, output: W) -> Self
    where
        R: AsyncBufRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let scope = Scope::new();
        let (lines, queue) = mpsc::channel(16);
        let frames: Arc<Pending> = Arc::default();
        let waiting: Waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        let (token, told, pending) = (scope.token().clone(), waiting.clone(), frames.clone());
        scope.spawn(async move {
            tokio::select! {
                () = token.cancelled() => {}
                () = read(input, &told, &pending) => {}
                () = write(queue, output) => {}
            }
            // Dropping the senders tells everybody who still waits that the connection has ended.
            lock(&told).take();
            pending.came.notify_one();
        });
        Self { lines, waiting, frames, next: Arc::new(AtomicU64::new(1)), _scope: Arc::new(Ending(scope)) }
    }

    /// A caller of this process's own engine.
    pub fn of(host: &Host) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let serving = host.clone();
        host.scope.spawn(async move {
            let (input, output) = tokio::io::split(theirs);
            // A pipe of this process ends when its reader, the client, does.
            let _ = rpc::serve(&serving, BufReader::new(input), output, async {}).await;
        });
        let (input, output) = tokio::io::split(ours);
        Self::new(BufReader::new(input), output)
    }

    /// Does one command. Dropping the future gives up its answer, not the command.
    pub async fn call(&self, cmd: &str, args: Value) -> Result<Value, Failed> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        match lock(&self.waiting).as_mut() {
            Some(waiting) => waiting.insert(id, sender),
            None => return Err(lost()),
        };
        let line = json!({ "id": id, "cmd": cmd, "args": args }).to_string();
        self.lines.send(line).await.map_err(|_| lost())?;
        receiver.await.map_err(|_| lost())?
    }

    /// The same, with the answer as a type.
    pub async fn ask<T: DeserializeOwned>(&self, cmd: &str, args: Value) -> Result<T, Failed> {
        let answer = self.call(cmd, args).await?;
        self.fit(cmd, answer)
    }

    /// An answer to `cmd` as a type.
    pub fn fit<T: DeserializeOwned>(&self, cmd: &str, answer: Value) -> Result<T, Failed> {
        serde_json::from_value(answer).map_err(|error| Failed {
            code: Code::Internal,
            message: format!("The answer to `{cmd}` does not fit: {error}. Do both processes have the same version?"),
        })
    }

    /// What changed since the last time, sessions, tasks and asks only; none when the connection has ended. For one caller
    /// at a time.
    pub async fn frame(&self) -> Option<Frame> {
        loop {
            if let Some(frame) = lock(&self.frames.frame).take() {
                return Some(frame);
            }
            if lock(&self.waiting).is_none() {
                return None;
            }
            self.frames.came.notified().await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pending {
    fn add(&self, frame: Frame) {
        let mut pending = lock(&self.frame);
        match pending.as_mut() {
            None => *pending = Some(frame),
            Some(pending) => {
                pending.seq = frame.seq;
                pending.status = frame.status.or(pending.status.take());
                pending.removed.extend(frame.removed);
                replace(&mut pending.sessions, frame.sessions, |session| session.id.clone());
                replace(&mut pending.tasks, frame.tasks, |task| task.id.clone());
                replace(&mut pending.asks, frame.asks, |ask| ask.id.clone());
            }
        }
        drop(pending);
        self.came.notify_one();
    }
}

fn replace<T, K: PartialEq>(all: &mut Vec<T>, newer: Vec<T>, key: impl Fn(&T) -> K) {
    for item in newer {
        match all.iter_mut().find(|old| key(old) == key(&item)) {
            Some(old) => *old = item,
            None => all.push(item),
        }
    }
}

fn lost() -> Failed {
    Failed {
        code: Code::ShuttingDown,
        message: "The process that holds the data folder has ended. What was accepted is kept.".to_owned(),
    }
}

async fn read<R: AsyncBufRead + Unpin>(input: R, waiting: &Waiting, frames: &Pending) {
    let mut lines = input.lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(mut message) = serde_json::from_str::<Value>(&line) else {
            tracing::warn!("an answer is not JSON");
            continue;
        };
        if let Some(frame) = message.get_mut("frame") {
            match serde_json::from_value(frame.take()) {
                Ok(frame) => frames.add(frame),
                Err(error) => tracing::warn!(%error, "a frame does not fit"),
            }
            continue;
        }
        let Some(sender) = message.get("id").and_then(Value::as_u64).and_then(|id| lock(waiting).as_mut()?.remove(&id))
        else {
            continue;
        };
        let answer = match message.get_mut("ok") {
            Some(ok) => Ok(ok.take()),
            None => Err(serde_json::from_value(message["error"].take()).unwrap_or_else(|_| Failed {
                code: Code::Internal,
                message: "The answer is neither a result nor an error.".to_owned(),
            })),
        };
        // The asker may have given up; then the answer is nobody's.
        let _ = sender.send(answer);
    }
}

async fn write<W: AsyncWrite + Unpin>(mut queue: mpsc::Receiver<String>, mut output: W) {
    while let Some(mut line) = queue.recv().await {
        line.push('\n');
        if output.write_all(line.as_bytes()).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_find_their_askers_in_any_order_and_frames_come_beside_them() {
        let (ours, theirs) = tokio::io::duplex(4096);
        let (input, output) = tokio::io::split(ours);
        let client = Client::new(BufReader::new(input), output);
        let (input, mut output) = tokio::io::split(theirs);
        let server = async {
            let mut lines = BufReader::new(input).lines();
            let mut ids = Vec::new();
            for _ in 0..2 {
                let line: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
                ids.push((line["id"].clone(), line["cmd"].clone()));
            }
            let frame = json!({ "frame": Frame { seq: 7, ..Frame::default() } });
            output.write_all(format!("{frame}\n").as_bytes()).await.unwrap();
            for (id, cmd) in ids.into_iter().rev() {
                output.write_all(format!("{}\n", json!({ "id": id, "ok": cmd })).as_bytes()).await.unwrap();
            }
        };
        let (a, b, frame, ()) =
            tokio::join!(client.call("a", json!({})), client.call("b", json!({})), client.frame(), server);
        assert_eq!((a, b, frame.unwrap().seq), (Ok(json!("a")), Ok(json!("b")), 7));
    }

    #[tokio::test]
    async fn who_waits_learns_that_the_connection_has_ended() {
        let (ours, theirs) = tokio::io::duplex(4096);
        let (input, output) = tokio::io::split(ours);
        let client = Client::new(BufReader::new(input), output);
        let (answer, ()) = tokio::join!(client.call("a", json!({})), async {
            let mut lines = BufReader::new(theirs).lines();
            lines.next_line().await.unwrap();
        });
        assert_eq!(answer.unwrap_err().code, Code::ShuttingDown);
        assert_eq!(client.call("b", json!({})).await.unwrap_err().code, Code::ShuttingDown);
    }
}
