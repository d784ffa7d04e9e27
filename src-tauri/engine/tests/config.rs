//! What a configuration may say, and how a wrong one is named.

use coppice_engine::config::{Config, Desktop, Limits, ModelConfig, Notices, Protocol};
use coppice_engine::error::Code;
use expect_test::{Expect, expect};

fn parse(text: &str) -> Config {
    Config::parse("config.toml", text).unwrap()
}

/// Each text is refused, with one line of these words; how every refusal begins and ends is left out.
fn check(texts: &[&str], words: Expect) {
    let told = texts.iter().map(|text| {
        let error = Config::parse("config.toml", text).unwrap_err();
        assert_eq!(error.code(), Code::BadRequest);
        let told = error.message().strip_prefix("config.toml, ").unwrap();
        told.strip_suffix(" Correct it and start again; nothing was started.").unwrap().to_owned() + "\n"
    });
    words.assert_eq(&told.collect::<String>());
}

#[test]
fn an_empty_or_absent_file_is_the_defaults() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(parse(""), Config::default());
    assert_eq!(Config::load(&folder.path().join("config.toml")).unwrap(), Config::default());
    assert_eq!(Config::default().default_model, "rehearsal");
    assert_eq!(Config::default().subagents.keys().collect::<Vec<_>>(), ["subagent"]);
}

#[test]
fn everything_that_the_file_may_say_is_understood() {
    let config = parse(
        r#"
default_model = "local"

[models.local]
protocol = "openai-chat"
base_url = "http://127.0.0.1:8080/v1"
model = "some-model"
key_env = "SOME_KEY"
context = 8192

[subagents.subagent]
provider = "spawn"
run_in_background = false
model = "local"
persona = "Be brief."
tools = { allow = ["grep"], deny = ["bash"] }
max_depth = 2

[subagents.subagent_fork]
provider = "fork"

[subagents.subagent_example]
provider = "acp"
agent = "example"

[agents.example]
command = "example-acp"
args = ["--acp"]
env = { A = "b" }
mode = "default"

[limits]
depth = 2
live_tasks_per_owner = 1
live_children = 2
children = 3
tokens = 4
money_usd = 5
wall_clock_s = 6
step_limit = 7
idle_s = 8
stop_grace_ms = 9
wake_budget = 10

[notices]
wake = false
desktop = "roots"
"#,
    );
    assert_eq!(
        config.models["local"],
        ModelConfig {
            protocol: Protocol::OpenaiChat,
            base_url: Some("http://127.0.0.1:8080/v1".to_owned()),
            model: Some("some-model".to_owned()),
            key_env: Some("SOME_KEY".to_owned()),
            context: Some(8192),
            script: None,
            pace: None,
        }
    );
    assert_eq!(config.subagents.keys().collect::<Vec<_>>(), ["subagent", "subagent_example", "subagent_fork"]);
    assert!(!config.subagents["subagent"].run_in_background);
    assert!(config.subagents["subagent_fork"].run_in_background);
    assert_eq!(config.agents["example"].args, ["--acp"]);
    assert_eq!(
        config.limits,
        Limits {
            depth: 2,
            live_tasks_per_owner: 1,
            live_children: 2,
            children: 3,
            tokens: 4,
            money_usd: 5.0,
            wall_clock_s: 6,
            step_limit: 7,
            same_calls: 20,
            failed_steps: 20,
            idle_s: 8,
            stop_grace_ms: 9,
            wake_budget: 10,
        }
    );
    assert_eq!(config.notices, Notices { wake: false, desktop: Desktop::Roots });
}

#[test]
fn what_is_given_stands_beside_the_defaults() {
    let config = parse(
        "[models.local]\nprotocol = \"gemini\"\nmodel = \"m\"\n[subagents.subagent_two]\nprovider = \"spawn\"\n[limits]\ndepth = 1\n",
    );
    assert_eq!(config.models.keys().collect::<Vec<_>>(), ["local", "rehearsal"]);
    assert_eq!(config.subagents.keys().collect::<Vec<_>>(), ["subagent", "subagent_two"]);
    assert_eq!(config.default_model, "rehearsal");
    assert_eq!(config.limits, Limits { depth: 1, ..Limits::default() });

    let config = parse("[models.rehearsal]\nprotocol = \"rehearsal\"\npace = 0\n");
    assert_eq!(config.models["rehearsal"].pace, Some(0.0));
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_are_fine() {
    assert_eq!(parse("\u{feff}default_model = \"rehearsal\"\r\n[limits]\r\ndepth = 3\r\n"), Config::default());
    check(
        &["\u{feff}[limits]\r\ndepth = 3\r\ndeep = 4\r\n"],
        expect![[r#"
            line 3: unknown field `deep`, expected one of `depth`, `live_tasks_per_owner`, `live_children`, `children`, `tokens`, `money_usd`, `wall_clock_s`, `step_limit`, `same_calls`, `failed_steps`, `idle_s`, `stop_grace_ms`, `wake_budget`.
        "#]],
    );
}

#[test]
fn what_is_no_toml_and_what_does_not_fit_is_named_with_its_line() {
    check(
        &[
            "\n\ndefault_model = \n",
            "[limits]\ndepth = 1\ndepth = 2\n",
            "[limits]\ndepth = \"three\"\n",
            "[limits]\nchildren = -1\n",
            "model = \"x\"\n",
            "[notices]\n\ndesktop = \"all\"\n",
            "\n[models.local]\nmodel = \"x\"\n",
            "[models.local]\nprotocol = \"openai\"\n",
            "[subagents.subagent]\nprovider = \"spawn\"\ntools = { alow = [] }\n",
        ],
        expect![[r#"
            line 3: string values must be quoted, expected literal string.
            line 3: duplicate key.
            line 2: invalid type: string "three", expected a whole number of 0 or more.
            line 2: invalid value: integer `-1`, expected a whole number of 0 or more.
            line 1: unknown field `model`, expected one of `default_model`, `models`, `subagents`, `agents`, `limits`, `notices`.
            line 3: unknown variant `all`, expected one of `tasks`, `roots`, `asks`, `off`.
            line 2: missing field `protocol`.
            line 2: unknown variant `openai`, expected one of `anthropic`, `openai-chat`, `openai-responses`, `gemini`, `rehearsal`.
            line 3: unknown field `alow`, expected `allow` or `deny`.
        "#]],
    );
}

#[test]
fn an_impossible_model_is_named_with_its_line() {
    check(
        &[
            "default_model = \"locl\"\n[models.local]\nprotocol = \"gemini\"\nmodel = \"m\"\n",
            "[models.a]\nprotocol = \"openai-chat\"\nmodel = \"m\"\n",
            "\n[models.a]\nprotocol = \"openai-chat\"\nbase_url = \"http://localhost/v1\"\n",
            "[models.a]\nprotocol = \"openai-chat\"\nmodel = \"m\"\nbase_url = \"localhost:80\"\n",
            "[models.a]\nprotocol = \"gemini\"\nmodel = \"m\"\nscript = \"s\"\n",
            "[models.a]\nprotocol = \"gemini\"\nmodel = \"m\"\npace = 1\n",
            "[models.a]\nprotocol = \"rehearsal\"\npace = -0.5\n",
            "[models.a]\nprotocol = \"rehearsal\"\npace = nan\n",
            "[models.a]\nprotocol = \"rehearsal\"\npace = inf\n",
            "[models.a]\nprotocol = \"rehearsal\"\npace = 1e300\n",
            "[models.a]\nprotocol = \"rehearsal\"\npace = 100.5\n",
            "[models.a]\nprotocol = \"rehearsal\"\nbase_url = \"http://localhost\"\n",
            "[models.rehearsal]\nprotocol = \"gemini\"\nmodel = \"m\"\n",
            "[models.a]\nprotocol = \"gemini\"\nmodel = \"m\"\ncontext = 0\n",
            "[models]\na = { protocol = \"gemini\",\n  model = \"m\",\n  context = 0 }\n",
        ],
        expect![[r#"
            line 1: there is no model `locl`; the models are local, rehearsal.
            line 1: the model `a` needs `base_url`, for example "http://127.0.0.1:8080/v1".
            line 2: the model `a` needs `model`, the name that its server knows it by.
            line 4: `base_url` has to be an address like "http://127.0.0.1:8080/v1".
            line 4: `script` is for the rehearsal only; remove it, or set protocol = "rehearsal".
            line 4: `pace` is for the rehearsal only; remove it, or set protocol = "rehearsal".
            line 3: `pace` is a factor from 0 to 100.
            line 3: `pace` is a factor from 0 to 100.
            line 3: `pace` is a factor from 0 to 100.
            line 3: `pace` is a factor from 0 to 100.
            line 3: `pace` is a factor from 0 to 100.
            line 3: the rehearsal speaks to no server, so `base_url` means nothing for it; remove it.
            line 2: the name `rehearsal` belongs to the built-in model; call this one something else.
            line 4: a context of 0 tokens holds nothing; give its size or leave it out.
            line 4: a context of 0 tokens holds nothing; give its size or leave it out.
        "#]],
    );
}

#[test]
fn a_key_that_was_put_in_the_file_is_not_repeated() {
    check(
        &["[models.a]\nprotocol = \"gemini\"\nmodel = \"m\"\nkey_env = \"sk-secret\"\n"],
        expect![[r#"
        line 4: `key_env` is the name of the environment variable that holds the key, not the key itself.
    "#]],
    );
}

#[test]
fn an_impossible_delegation_tool_is_named_with_its_line() {
    let agent = "[agents.real]\ncommand = \"c\"\n";
    check(
        &[
            "[subagents.subagent]\nprovider = \"thread\"\n",
            "[subagents.Sub-Agent]\nprovider = \"spawn\"\n",
            "[subagents.bash]\nprovider = \"spawn\"\n",
            &format!("{agent}[subagents.a]\nprovider = \"acp\"\n"),
            &format!("{agent}[subagents.a]\nprovider = \"acp\"\nagent = \"unreal\"\n"),
            "[subagents.a]\nprovider = \"acp\"\nagent = \"unreal\"\n",
            &format!("{agent}[subagents.a]\nprovider = \"spawn\"\nagent = \"real\"\n"),
            "[subagents.a]\nprovider = \"spawn\"\nmodel = \"m\"\n",
            "[subagents.a]\nprovider = \"spawn\"\nmax_depth = 0\n",
            "[subagents.a]\nprovider = \"spawn\"\n[subagents.a.tools]\nallow = [\"bash\"]\ndeny = [\"Bash\"]\n",
            "[agents.a]\ncommand = \" \"\n",
            "[agents.a]\ncommand = \"c\"\nenv = { \"A=B\" = \"c\" }\n",
        ],
        expect![[r#"
            line 2: there is no subagent provider `thread`; the providers are spawn, fork and acp.
            line 1: `Sub-Agent` cannot be the name of a tool: use 1 to 40 of a-z, 0-9 and _.
            line 1: `bash` is the name of a tool that is always there; call this one `subagent_bash`.
            line 3: `a` is run by acp, so it needs `agent`: the name of a table under [agents].
            line 5: there is no agent `unreal`; the agents are real.
            line 3: there is no agent `unreal`; the agents are none so far.
            line 5: `agent` is for the provider acp only, and `a` is run by spawn.
            line 3: there is no model `m`; the models are rehearsal.
            line 3: the first child has depth 1, so with a `max_depth` of 0 none could start; give 1 or more.
            line 5: `Bash` cannot be the name of a tool: use 1 to 40 of a-z, 0-9 and _.
            line 2: the agent `a` needs a command to start.
            line 3: this cannot be the name of a variable.
        "#]],
    );
}

#[test]
fn an_impossible_limit_is_named_with_its_line() {
    check(
        &[
            "[limits]\n\nmoney_usd = -1.5\n",
            "[limits]\nmoney_usd = inf\n",
            "[limits]\nidle_s = 9000000000000000\n",
            "limits.stop_grace_ms = 9000000\n",
        ],
        expect![[r#"
            line 3: `money_usd` is an amount of 0 or more; 0 means no limit.
            line 2: `money_usd` is an amount of 0 or more; 0 means no limit.
            line 2: `idle_s` is at most 315360000.
            line 1: `stop_grace_ms` is at most 600000.
        "#]],
    );
}

#[test]
fn a_file_that_cannot_be_read_as_text_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    let told = |path| {
        let error = Config::load(path).unwrap_err();
        assert_eq!(error.code(), Code::BadRequest);
        error.message().replace(&folder.path().display().to_string(), "DIR")
    };
    std::fs::write(&path, b"default_model = \"rehearsal\"\n# caf\xe9\n").unwrap();
    expect!["DIR/config.toml, line 2: this is not UTF-8. Save the file as UTF-8."].assert_eq(&told(&path));
    std::fs::write(&path, "#".repeat(2 * 1024 * 1024)).unwrap();
    expect!["DIR/config.toml is larger than 1048576 bytes, so it is no configuration. Name another file."]
        .assert_eq(&told(&path));
    expect![[r#"DIR cannot be read (it is no regular file). Make it readable or name another file."#]]
        .assert_eq(&told(folder.path()));
}

#[test]
fn a_relative_script_starts_from_the_folder_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    std::fs::write(&path, "[models.a]\nprotocol = \"rehearsal\"\nscript = \"a.toml\"\n").unwrap();
    assert_eq!(Config::load(&path).unwrap().models["a"].script, Some(folder.path().join("a.toml")));
}

#[cfg(unix)]
#[test]
#[expect(clippy::disallowed_methods, reason = "a pipe is made by the system's own tool")]
fn a_pipe_is_no_configuration_and_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (told, hears) = std::sync::mpsc::channel();
    let path = pipe.clone();
    std::thread::spawn(move || told.send(Config::load(&path).unwrap_err().message().to_owned()));
    let message = hears.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
    let why =
        format!("{} cannot be read (it is no regular file). Make it readable or name another file.", pipe.display());
    assert_eq!(message, why);
}

#[test]
fn a_tool_that_does_not_exist_is_named_with_its_line_in_a_filter() {
    check(
        &[
            "[subagents.a]\nprovider = \"spawn\"\ntools = { allow = [\"bash\", \"nope\"] }\n",
            "[subagents.a]\nprovider = \"spawn\"\n[subagents.a.tools]\ndeny = [\"nope\"]\n",
        ],
        expect![[r#"
            line 3: there is no tool `nope`; the tools are bash, read_file, write_file, edit_file, glob, grep, task_output, task_list, task_kill, send_message, list_agents, subagent, a.
            line 4: there is no tool `nope`; the tools are bash, read_file, write_file, edit_file, glob, grep, task_output, task_list, task_kill, send_message, list_agents, subagent, a.
        "#]],
    );
    parse("[subagents.a]\nprovider = \"spawn\"\ntools = { allow = [\"bash\", \"subagent\", \"a\"] }\n");
}
