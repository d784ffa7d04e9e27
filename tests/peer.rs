//! A journey with a real model: a small one, behind a real server, on this machine.
#![allow(clippy::disallowed_methods, reason = "tests start programs")]

use crate::support::desk::{Desk, journey};
use crate::support::{Place, project};
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a small model on a busy machine may take for a reply.
const REPLY: Duration = Duration::from_secs(120);

/// The model's server. It ends when its input closes, so also when the test dies.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// Starts it, with this as the one tool that the model may call.
    fn start(tool: &str) -> Self {
        let python = project().join(".cache/peer/bin/python");
        let mut child = Command::new(&python)
            .args(["tests/peer/serve_model.py", "--tool", tool])
            .current_dir(project())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{}: {error}. `make test` puts the model's server there.", python.display())
            });
        let said = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("LISTENING ").map(str::to_owned));
        let url = said.unwrap_or_else(|| {
            panic!("the model's server did not start. Remove .cache/peer, and `make test` installs it anew.")
        });
        Self { child, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_real_model_calls_a_tool_and_answers_in_the_window() {
    journey(async {
        let (desk, place) = (Desk::new(true).await, Place::new(json!({ "sessions": {} })));
        let server = Server::start("read_file");
        place.write_config(&format!(
            "default_model = \"local\"\n[models.local]\nprotocol = \"openai-chat\"\nmodel = \"smollm2-135m\"\n\
             base_url = \"{}/v1\"\ncontext = 8192\n",
            server.url
        ));
        let window = desk.open(&place).await;
        window.page.write("The job", "What is in read.me?").await;
        window.page.press("Start").await;
        window.page.find_within("//article//b[. = 'Read' or . = 'Reading']", REPLY).await;
        window.page.find_within("//article[.//h2[starts-with(normalize-space(.), 'Answer')]]", REPLY).await;
        window.page.shoot("real-model").await;
        window.close().await;
        let mut rpc = place.rpc();
        let tree = rpc.call("tree", json!({}));
        let rows = rpc.call("page", json!({ "session": tree["sessions"][0]["id"] }))["rows"].clone();
        let tools: Vec<&str> = rows.as_array().unwrap().iter().filter_map(|row| row["tool"].as_str()).collect();
        assert_eq!(tools, ["read_file"], "{rows}");
    });
}
