//! A bare client in a process of its own: it sends the requests that a fan-out sent, at the same pace, and does nothing
//! with the answers.

use crate::measure::{Process, ms, peak};
use futures::future::join_all;
use reqwest::Client;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

/// The argument by which this program is started as the bare client.
pub const NAME: &str = "bare-client";

/// What it took.
#[derive(Serialize, Deserialize)]
pub struct Took {
    pub wall_ms: f64,
    pub cpu_s: f64,
    pub peak_mb: f64,
}

/// Sends `root` once, and then, for each of so many children at once, `child` one after the other.
pub fn run(url: &str, folder: &Path, root: &[u8], child: &[Vec<u8>], children: usize) -> Took {
    std::fs::write(folder.join("root"), root).unwrap();
    for (at, body) in child.iter().enumerate() {
        std::fs::write(folder.join(at.to_string()), body).unwrap();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([NAME, url])
        .arg(folder)
        .args([child.len().to_string(), children.to_string()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The bare client itself.
pub fn main(args: &[String]) {
    let [url, folder, requests, children] = args else { panic!("{NAME} URL FOLDER REQUESTS CHILDREN") };
    let (requests, children): (usize, usize) = (requests.parse().unwrap(), children.parse().unwrap());
    let read = |name: String| std::fs::read(Path::new(folder).join(name)).unwrap();
    let bodies: Arc<Vec<Vec<u8>>> = Arc::new((0..requests).map(|at| read(at.to_string())).collect());
    let (root, url) = (read("root".to_owned()), format!("{url}/chat/completions"));
    let began = Instant::now();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = Client::builder().no_proxy().build().unwrap();
        send(&client, &url, root).await;
        let child = || {
            let (client, url, bodies) = (client.clone(), url.clone(), bodies.clone());
            tokio::spawn(async move {
                for body in bodies.iter() {
                    send(&client, &url, body.clone()).await;
                }
            })
        };
        for done in join_all((0..children).map(|_| child())).await {
            done.unwrap();
        }
    });
    let wall_ms = ms(began);
    let own = Process::find(std::process::id()).unwrap();
    let took = Took { wall_ms, cpu_s: own.cpu.as_secs_f64(), peak_mb: peak(own.pid) };
    println!("{}", serde_json::to_string(&took).unwrap());
}

async fn send(client: &Client, url: &str, body: Vec<u8>) {
    let request = client.post(url).header("content-type", "application/json").body(body);
    let answer = request.send().await.unwrap().error_for_status().unwrap();
    answer.bytes().await.unwrap();
}
