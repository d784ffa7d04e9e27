//! Keys are nowhere but where a person put them: not in the data folder, not in what is logged, answered or pushed, not
//! in the environment of a command, whatever way they came in and whoever repeats them.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "this is a test")]
#![allow(clippy::disallowed_methods, reason = "the test starts itself as a process with an environment of its own")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coppice_engine::Engine;
use coppice_engine::config::Config;
use coppice_engine::env::Env;
use coppice_engine::keys::KeyStore;
use coppice_host::host::Host;
use coppice_host::rpc;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// The keys: one for each place, in the order of [`MODELS`]. They have no shape that tells them, but the third.
const KEYS: [&str; 4] =
    ["environment-7f3a-quartz", "in.the.ring/9c1b+amber", "sk-in-the-file-0123456789-opal", "memory~only~55d2~jade"];
const MODELS: [(&str, &str); 4] = [("env", "K_ENV"), ("ring", "K_RING"), ("file", "K_FILE"), ("mem", "K_MEM")];

/// A key of nobody here, which a command prints.
const FOREIGN: &str = "ghp_Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3d";

/// A keyring in memory.
#[derive(Default)]
struct Ring(Mutex<BTreeMap<String, String>>);

impl KeyStore for Ring {
    fn read(&self, name: &str) -> Result<Option<SecretString>, String> {
        Ok(self.0.lock().unwrap().get(name).cloned().map(SecretString::from))
    }

    fn write(&self, name: &str, key: &SecretString) -> Result<(), String> {
        self.0.lock().unwrap().insert(name.to_owned(), key.expose_secret().to_owned());
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<bool, String> {
        Ok(self.0.lock().unwrap().remove(name).is_some())
    }
}

/// A model server that wants the key and repeats it in all it says.
async fn serve(listener: TcpListener) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(answer(stream));
    }
}

async fn answer(stream: TcpStream) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut length, mut key, mut line, mut first) = (0, String::new(), String::new(), String::new());
        loop {
            line.clear();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            if first.is_empty() {
                first = line.clone();
            }
            let lower = line.to_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if lower.starts_with("authorization:") {
                key = line.split_whitespace().last().unwrap_or_default().to_owned();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let (status, reply) = if first.starts_with("GET") { (200, json!({ "data": [] })) } else { reply(&key, &body) };
        let reply = reply.to_string();
        let head =
            format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", reply.len());
        if stream.write_all(format!("{head}{reply}").as_bytes()).await.is_err() {
            return;
        }
    }
}

fn reply(key: &str, body: &[u8]) -> (u16, Value) {
    let body: Value = serde_json::from_slice(body).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let last = messages.last().unwrap();
    let says = |message: Value| json!({ "choices": [{ "index": 0, "finish_reason": "stop", "message": message }] });
    if last["content"].as_str().is_some_and(|text| text.contains("fail")) {
        return (401, json!({ "error": { "message": format!("Bad key {key}, in base64 {}", STANDARD.encode(key)) } }));
    }
    if messages.iter().any(|message| message["role"] == "tool") {
        let text = format!("Your key is {key}, or {}, and {FOREIGN}.", STANDARD.encode(format!("user:{key}")));
        return (200, says(json!({ "role": "assistant", "content": text })));
    }
    let (one, two) = key.split_at(9);
    let show = format!("echo {key}; printf %s {one}; sleep 0.2; echo {two}; echo {FOREIGN}; printf %s {key} | base64");
    let look = "env | grep -c -e '^K_' -e '^OPENAI_API_KEY='; printenv SOME_TOKEN; true";
    let call = |n: usize, args: Value| json!({ "id": format!("c{n}"), "type": "function", "function": { "name": "bash", "arguments": args.to_string() } });
    let calls = json!([
        call(0, json!({ "command": show })),
        call(1, json!({ "command": look })),
        call(2, json!({ "command": show, "run_in_background": true })),
    ]);
    (200, says(json!({ "role": "assistant", "content": format!("I print {key}."), "tool_calls": calls })))
}

/// The process that does it all: what it answers goes to standard output, what it logs to standard error.
#[test]
#[ignore = "started by the other test as a process of its own"]
fn a_process_that_uses_keys() {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(tracing::Level::TRACE).init();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let dir = PathBuf::from(std::env::var("TEST_DIR").unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener));
        let mut text = "default_model = \"env\"\n".to_owned();
        for (model, key) in MODELS {
            text.push_str(&format!(
                "[models.{model}]\nprotocol = \"openai-chat\"\nbase_url = \"http://{address}/v1\"\nmodel = \"m\"\nkey_env = \"{key}\"\n"
            ));
        }
        std::fs::write(dir.join("config.toml"), text).unwrap();
        let config = Config::load(&dir.join("config.toml")).unwrap();
        let ring = Arc::new(Ring::default());
        let engine =
            Engine::open_keyed(&dir.join("data"), config, Env::system(), BTreeMap::new(), ring).await.unwrap();
        let host = Host::new(engine, dir.join("config.toml"), dir.clone());
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (input, output) = tokio::io::split(theirs);
        let serving = host.clone();
        let served = tokio::spawn(async move { rpc::serve(&serving, BufReader::new(input), output, async {}).await });
        let (input, mut output) = tokio::io::split(ours);
        let mut lines = BufReader::new(input).lines();
        let mut n = 0;
        let mut call = async |cmd: &str, args: Value| {
            n += 1;
            output.write_all(format!("{}\n", json!({ "id": n, "cmd": cmd, "args": args })).as_bytes()).await.unwrap();
            loop {
                let line = lines.next_line().await.unwrap().unwrap();
                println!("{line}");
                let line: Value = serde_json::from_str(&line).unwrap();
                if line["id"] == n {
                    return line;
                }
            }
        };
        // A key that is asked for before it is there is told to be missing, and works without a restart once it is.
        for (place, (model, name)) in ["environment", "keyring", "file", "memory"].into_iter().zip(MODELS) {
            let secret = KEYS[MODELS.iter().position(|other| other.1 == name).unwrap()];
            if place != "environment" {
                let models = call("models", json!({})).await["ok"]["models"].clone();
                let found = models.as_array().unwrap().iter().find(|view| view["name"] == *model).unwrap().clone();
                assert!(found["problem"].as_str().unwrap().contains("is not set"), "{found}");
                let args = json!({ "name": name, "where": place, "secret": secret, "key": format!("set {name}") });
                assert_eq!(call("set_key", args.clone()).await["ok"], json!({}));
                assert_eq!(call("set_key", args).await["ok"], json!({}), "the same again does nothing more");
            }
            let opened = call("open", json!({ "cwd": dir.join("work"), "model": model, "mode": "full", "key": model })).await;
            let session = opened["ok"]["session"].clone();
            call("subscribe", json!({ "session": session, "after": 0 })).await;
            for text in [format!("go, with {secret}"), "fail".to_owned()] {
                let key = format!("{model} {}", text.len());
                assert!(call("prompt", json!({ "session": session, "text": text, "key": key })).await["ok"].is_object());
                let waited = call("wait", json!({ "session": session, "timeout_ms": 30_000 })).await;
                assert!(waited["ok"]["state"] != "running", "{waited}");
            }
            for cmd in ["page", "events"] {
                call(cmd, json!({ "session": session })).await;
            }
        }
        let tasks = call("tree", json!({})).await["ok"]["tasks"].clone();
        for task in tasks.as_array().unwrap() {
            call("wait", json!({ "task": task["id"], "timeout_ms": 30_000 })).await;
            call("output", json!({ "task": task["id"] })).await;
        }
        // What does not fit is refused without being repeated.
        for args in [
            json!({ "name": KEYS[1], "where": "memory", "secret": "0123456789", "key": "wrong 1" }),
            json!({ "name": "K_MEM", "where": "memory", "secret": [KEYS[1]], "key": "wrong 2" }),
            json!({ "name": "K_MEM", "where": "environment", "secret": KEYS[1], "key": "wrong 3" }),
            json!({ "name": "K_MEM", "where": "memory", "secret": format!("{} {}", KEYS[1], KEYS[1]), "key": "wrong 4" }),
        ] {
            assert_eq!(call("set_key", args).await["error"]["code"], "bad_request");
        }
        call("keys", json!({ "probe": true })).await;
        call("diagnostics", json!({})).await;
        call("search", json!({ "text": "key" })).await;
        output.shutdown().await.unwrap();
        served.await.unwrap().unwrap();
        host.leave().await.unwrap();
    });
}

/// Every file below a folder.
fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() { files(&entry.path(), out) } else { out.push(entry.path()) }
    }
}

fn holds(bytes: &[u8], secret: &str) -> bool {
    bytes.windows(secret.len()).any(|window| window == secret.as_bytes())
}

#[test]
fn a_key_is_nowhere_but_where_it_was_put() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("work")).unwrap();
    let done = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_process_that_uses_keys", "--ignored", "--nocapture"])
        .env("TEST_DIR", dir.path())
        .env("HOME", dir.path())
        .env("K_ENV", KEYS[0])
        .env("OPENAI_API_KEY", "not-configured-here-but-known")
        .env("SOME_TOKEN", "wanted-by-a-build")
        .output()
        .unwrap();
    let (out, log) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let end = |text: &str| text.chars().rev().take(6000).collect::<Vec<_>>().into_iter().rev().collect::<String>();
    assert!(done.status.success(), "{}\n{}", end(&out), end(&log));

    let mut found = Vec::new();
    files(&dir.path().join("data"), &mut found);
    let mut places: Vec<(String, Vec<u8>)> =
        vec![("answers".to_owned(), done.stdout.clone()), ("log".to_owned(), done.stderr.clone())];
    places.extend(found.iter().map(|path| (path.display().to_string(), std::fs::read(path).unwrap())));
    for secret in KEYS.into_iter().chain([FOREIGN]) {
        let encoded = STANDARD.encode(secret);
        let shifted = STANDARD.encode(format!("user:{secret}"));
        for (place, bytes) in &places {
            if place.ends_with("/keys.json") {
                continue;
            }
            // The neighbours have a part in the ends of what was encoded.
            for form in [secret, &encoded[..encoded.len() - 4], &shifted[8..shifted.len() - 4]] {
                assert!(!holds(bytes, form), "{form} is in {place}");
            }
        }
    }

    let file = dir.path().join("data/keys.json");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(
        (mode & 0o777, std::fs::read_to_string(&file).unwrap()),
        (0o600, json!({ "K_FILE": KEYS[2] }).to_string())
    );

    let answers: Vec<Value> = out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let keys = answers.iter().find_map(|line| line["ok"]["keyring"].as_str().map(|_| line["ok"].clone())).unwrap();
    assert_eq!(keys["keyring"], "works");
    let told: Vec<(&str, &str, &str)> = keys["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| (key["name"].as_str().unwrap(), key["place"].as_str().unwrap(), key["ending"].as_str().unwrap()))
        .collect();
    assert_eq!(
        told,
        [
            ("K_ENV", "environment", "artz"),
            ("K_FILE", "file", "opal"),
            ("K_MEM", "memory", "jade"),
            ("K_RING", "keyring", "mber")
        ]
    );
    let report =
        answers.iter().find_map(|line| line["ok"]["text"].as_str().filter(|text| text.starts_with("version"))).unwrap();
    assert!(report.contains("data folder    ~/data") && !report.contains(&*dir.path().to_string_lossy()), "{report}");
    assert!(!report.contains("opal") && !report.contains("go, with"), "{report}");

    // What the commands saw, and that the rows say what was taken out of what they put out.
    let finished: Vec<&Value> = answers
        .iter()
        .flat_map(|line| line["ok"]["events"].as_array().into_iter().flatten())
        .filter(|event| event["kind"] == "tool_finished")
        .map(|event| &event["body"])
        .collect();
    let looked =
        finished.iter().filter(|body| body["text"].as_str().unwrap().starts_with("0\nwanted-by-a-build\n")).count();
    assert_eq!(looked, MODELS.len(), "{finished:#?}");
    let shown = finished.iter().filter(|body| body["detail"]["masked"] == 4).count();
    assert_eq!(shown, MODELS.len(), "{finished:#?}");
    let settled = out.matches("secrets were masked").count();
    assert!(settled >= MODELS.len(), "the end of a background command says it");
}
