//! The looks of the tour, as the children play them: one tool call a step, and an answer that quotes what came of them.

use super::history::{Done, done, words};
use super::{Act, orders};
use crate::event::Block;
use crate::llm::{Message, Request, ToolSpec};
use orders::Order;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// The label of the look that lists.
pub const HERE: &str = "What is here";
/// The label of the look that measures.
pub const LARGEST: &str = "The largest files";
/// The label of the look that searches.
pub const OPEN_ENDS: &str = "The open ends";

/// What every answer begins with, so that an earlier one is known again.
const REPORT: &str = "I am the rehearsal. All that follows stands in the results of my tools.";
/// How many lines of a result are quoted, and how many bytes of a line.
const LINES: usize = 10;
const LINE: usize = 160;
/// Everything that is not machinery: what a command walks over.
const FILES: &str = "find . \\( -name .git -o -name node_modules -o -name target \\) -prune -o -type f";

/// One look at something.
struct Step {
    /// What it is, for the answer.
    title: String,
    /// What is said before it.
    say: String,
    tool: &'static str,
    args: Value,
    /// How long is waited before and after what is said, in milliseconds.
    pause: u64,
}

/// What a request to a child comes to.
pub fn acts(request: &Request) -> Vec<Act> {
    let history = done(&request.messages);
    let answered = request.messages.iter().rposition(is_answer);
    let asked: Vec<(usize, Order)> = request
        .messages
        .iter()
        .enumerate()
        // The first message is the prompt.
        .skip(1)
        .filter_map(|(at, message)| if let Message::User(text) = message { Some((at, text)) } else { None })
        .flat_map(|(at, text)| orders::read(text, Path::new(&request.cwd)).into_iter().map(move |order| (at, order)))
        .collect();
    let fresh = |at: usize| answered.is_none_or(|answered| answered < at);
    let stop = asked.iter().any(|(at, order)| fresh(*at) && *order == Order::Stop);
    let go_on = answered.is_none() || asked.iter().any(|(at, order)| fresh(*at) && *order == Order::GoOn);

    let toolbox = Toolbox(&request.tools);
    let errands: Vec<(usize, Step)> = asked
        .iter()
        .filter(|(at, _)| fresh(*at))
        .filter_map(|(at, order)| Some((*at, errand(order, &toolbox)?)))
        .collect();
    let plan: Vec<Step> = plan(&request.label, &history, &toolbox);
    // What is asked for is done anew, also when it was done before.
    let find = |since: usize, step: &Step| {
        history.iter().rfind(|done| done.at >= since && done.tool == step.tool && done.args == step.args)
    };

    let mut acts = acknowledge(request, &asked);
    let planned = plan.iter().filter(|_| go_on).map(|step| (0, step));
    let mut all = errands.iter().map(|(at, step)| (*at, step)).chain(planned);
    let next = all.find(|(at, step)| find(*at, step).is_none());
    if let Some((_, step)) = next.filter(|_| !stop) {
        acts.push(Act::Pause(Duration::from_millis(step.pause)));
        acts.push(Act::Say(format!("{}\n", step.say)));
        acts.push(Act::Pause(Duration::from_millis(step.pause)));
        acts.push(Act::Call { tool: step.tool.to_owned(), args: step.args.to_string() });
        return acts;
    }

    let mut text = format!("{REPORT}\n");
    if stop {
        text.push_str("\nYou asked me to stop, so this is what I had by then.\n");
    }
    for (at, step) in &errands {
        if let Some(done) = find(*at, step) {
            text.push_str(&format!("\nYou asked for it: {}\n", finding(step, done)));
        }
    }
    let mut found = 0;
    for step in plan.iter().filter(|_| go_on) {
        if let Some(done) = find(0, step) {
            found += 1;
            text.push_str(&format!("\n{}\n", finding(step, done)));
        }
    }
    if go_on {
        text.push_str(&format!("\n{found} of {} looks were made.", plan.len()));
    } else {
        text.push_str("\nMy earlier report stands. Say `go on` to have its looks completed.");
    }
    acts.push(Act::Pause(Duration::from_millis(600)));
    acts.push(Act::Say(text));
    acts
}

fn is_answer(message: &Message) -> bool {
    match message {
        Message::Assistant(blocks) => {
            let calls = blocks.iter().any(|block| matches!(block, Block::ToolCall { .. }));
            !calls && blocks.iter().any(|block| matches!(block, Block::Text { text } if text.contains(REPORT)))
        }
        Message::User(_) | Message::Tool { .. } => false,
    }
}

/// What is said to the messages that came since it last spoke.
fn acknowledge(request: &Request, asked: &[(usize, Order)]) -> Vec<Act> {
    let spoke = request.messages.iter().rposition(|message| matches!(message, Message::Assistant(_)));
    let new = asked.iter().filter(|(at, _)| spoke.is_none_or(|spoke| spoke < *at));
    let said: Vec<String> = new
        .map(|(_, order)| match order {
            Order::Stop => "you ask me to stop, so I do.".to_owned(),
            Order::GoOn => "you ask me to go on, so I do.".to_owned(),
            Order::Search(pattern) => format!("you ask for `{pattern}`, so I look for it."),
            Order::Path { path, .. } => format!("you point to `{path}`, so I look into it."),
            Order::Other(text) => format!(
                "I read \"{}\", but I only know how to stop, to look into a path, and to look for something.",
                crate::text::cut(text, 200)
            ),
        })
        .collect();
    said.into_iter().map(|said| Act::Say(format!("I am the rehearsal: {said}\n\n"))).collect()
}

/// What an order asks to be done, if it can be.
fn errand(order: &Order, toolbox: &Toolbox<'_>) -> Option<Step> {
    match order {
        Order::Search(pattern) => toolbox.grep(pattern, 900).map(|step| Step { title: format!("`{pattern}`"), ..step }),
        Order::Path { path, folder: true } => toolbox
            .bash(&format!("ls -la -- {}", quote(path)), 900)
            .map(|step| Step { title: format!("`{path}`"), ..step }),
        Order::Path { path, folder: false } => {
            toolbox.read(path, 900).map(|step| Step { title: format!("`{path}`"), ..step })
        }
        Order::Stop | Order::GoOn | Order::Other(_) => None,
    }
}

/// The steps of a look, as far as they can be told from what was found.
fn plan(label: &str, history: &[Done<'_>], toolbox: &Toolbox<'_>) -> Vec<Step> {
    let steps = match label {
        LARGEST => largest(history, toolbox),
        OPEN_ENDS => open_ends(history, toolbox),
        _ => here(history, toolbox),
    };
    steps.into_iter().flatten().collect()
}

fn titled(step: Option<Step>, title: &str, say: &str) -> Option<Step> {
    step.map(|step| Step { title: title.to_owned(), say: format!("I am the rehearsal: {say}"), ..step })
}

/// What an earlier step of the plan found.
fn found<'a>(history: &[Done<'a>], step: &Option<Step>) -> Option<&'a str> {
    let step = step.as_ref()?;
    history.iter().rfind(|done| done.ok && done.tool == step.tool && done.args == step.args).map(|done| done.text)
}

fn here(history: &[Done<'_>], toolbox: &Toolbox<'_>) -> Vec<Option<Step>> {
    let pause = 1100;
    let top = titled(toolbox.glob("*", pause), "At the top", "first I look at what lies at the top of this folder.");
    let list = titled(toolbox.bash("ls -p", pause), "The folder, listed", "now the same as a shell shows it.");
    let names = found(history, &top).or_else(|| found(history, &list)).unwrap_or_default();
    let readme = paths(names).find(|path| file_name(path).to_lowercase().starts_with("readme"));
    let text = readme.or_else(|| paths(names).find(|path| is_text(path)));
    let read = text.and_then(|path| {
        let title = format!("`{path}`, as far as I read it");
        titled(toolbox.read(path, pause), &title, "this one may introduce the rest, so I read its beginning.")
    });
    let lines = text.and_then(|path| {
        let command = format!("wc -l -- {}", quote(path));
        titled(toolbox.bash(&command, pause), "Its lines", "I count its lines.")
    });
    let kinds =
        format!("{FILES} -print | sed -n 's/.*\\.\\([A-Za-z0-9]*\\)$/\\1/p' | sort | uniq -c | sort -rn | head -n 8");
    let kinds = titled(toolbox.bash(&kinds, pause), "Files by kind", "last, how many files of each kind there are.");
    vec![top, list, read, lines, kinds]
}

fn largest(history: &[Done<'_>], toolbox: &Toolbox<'_>) -> Vec<Option<Step>> {
    let pause = 1300;
    let count = format!("{FILES} -print | wc -l");
    let count = titled(toolbox.bash(&count, pause), "How many files", "first I count the files.");
    let sizes = format!("{FILES} -exec wc -c {{}} + | grep -v ' total$' | sort -rn | head -n 10");
    let sizes = titled(toolbox.bash(&sizes, pause), "The largest, in bytes", "now I put them in order of their sizes.");
    let all = titled(toolbox.glob("**/*", pause), "All files", "I check the list with another tool.");
    let listed = found(history, &sizes).or_else(|| found(history, &all)).unwrap_or_default();
    let text = paths(listed).find(|path| is_text(path));
    let read = text.and_then(|path| {
        let title = format!("`{path}`, as far as I read it");
        titled(toolbox.read(path, pause), &title, "this is the largest text that I saw, so I read its beginning.")
    });
    let lines = text.and_then(|path| {
        let command = format!("wc -l -- {}", quote(path));
        titled(toolbox.bash(&command, pause), "Its lines", "I count its lines.")
    });
    let last = titled(toolbox.bash("ls -lt | head -n 6", pause), "Changed last", "and what changed last, at the top.");
    vec![count, sizes, all, read, lines, last]
}

fn open_ends(history: &[Done<'_>], toolbox: &Toolbox<'_>) -> Vec<Option<Step>> {
    let pause = 1000;
    let notes = titled(
        toolbox.grep("TODO|FIXME|XXX", pause),
        "TODO, FIXME and XXX",
        "first I look for notes that people leave themselves.",
    );
    let read = found(history, &notes).and_then(|notes| paths(notes).find(|path| is_text(path))).and_then(|path| {
        let title = format!("`{path}`, as far as I read it");
        titled(toolbox.read(path, pause), &title, "the first of these is worth a look.")
    });
    let status = "git status --short 2>&1 | head -n 20";
    let status = titled(toolbox.bash(status, pause), "Not committed", "is something not committed?");
    let log = titled(toolbox.bash("git log --oneline -n 5 2>&1", pause), "Committed last", "what was done last?");
    let tests = titled(toolbox.glob("**/*test*", pause), "Tests, by name", "are there tests?");
    let unfinished = titled(
        toolbox.grep("unimplemented|not implemented|HACK", pause),
        "Said to be unfinished",
        "last, what says of itself that it is not finished.",
    );
    vec![notes, read, status, log, tests, unfinished]
}

/// What came of a step, quoted.
fn finding(step: &Step, done: &Done<'_>) -> String {
    let Step { title, .. } = step;
    let lines: Vec<&str> = done.text.trim().lines().collect();
    if !done.ok {
        let why = lines.first().copied().unwrap_or("no reason was given");
        return format!("**{title}**: this did not work: {}", crate::text::cut(why, LINE));
    }
    let quoted: String =
        lines.iter().take(LINES).map(|line| format!("    {}\n", crate::text::cut(line, LINE))).collect();
    match lines.len() {
        0 => format!("**{title}**: nothing."),
        n if n > LINES => format!("**{title}** (the first {LINES} of {n} lines)\n\n{}", quoted.trim_end()),
        n => format!("**{title}** ({n} {})\n\n{}", if n == 1 { "line" } else { "lines" }, quoted.trim_end()),
    }
}

/// The tools that may be called, and how they name their arguments.
struct Toolbox<'a>(&'a [ToolSpec]);

impl Toolbox<'_> {
    fn step(&self, tool: &'static str, args: Value, pause: u64) -> Option<Step> {
        self.0.iter().any(|spec| spec.name == tool).then(|| Step {
            title: String::new(),
            say: format!("I am the rehearsal: I use `{tool}` for that."),
            tool,
            args,
            pause,
        })
    }

    fn bash(&self, command: &str, pause: u64) -> Option<Step> {
        self.step("bash", json!({"command": command}), pause)
    }

    fn glob(&self, pattern: &str, pause: u64) -> Option<Step> {
        self.step("glob", json!({"pattern": pattern}), pause)
    }

    fn grep(&self, pattern: &str, pause: u64) -> Option<Step> {
        self.step("grep", json!({"pattern": pattern}), pause)
    }

    fn read(&self, path: &str, pause: u64) -> Option<Step> {
        self.step("read_file", json!({"path": path}), pause)
    }
}

/// What looks like a path in a tool's answer, in order.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        // Sizes stand before a path, line numbers behind it.
        let line = match line.trim().split_once(' ') {
            Some((size, path)) if size.bytes().all(|byte| byte.is_ascii_digit()) => path,
            _ => line.trim(),
        };
        let path = line.split(':').next().unwrap_or(line);
        let path = path.strip_prefix("./").unwrap_or(path);
        (!path.is_empty() && path.len() < 300 && words(path).next().is_some()).then_some(path)
    })
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a name is one that texts have.
fn is_text(path: &str) -> bool {
    const TEXTS: [&str; 24] = [
        "md", "txt", "rs", "toml", "json", "yaml", "yml", "js", "ts", "svelte", "py", "go", "java", "c", "h", "cpp",
        "rb", "sh", "html", "css", "sql", "xml", "csv", "lock",
    ];
    file_name(path).rsplit_once('.').is_some_and(|(_, kind)| TEXTS.contains(&kind))
}

/// A path as a shell takes it.
fn quote(path: &str) -> String {
    format!("'{}'", path.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_from_what_tools_answer() {
        let answer = "README.md\nsrc/\n01-intro.md\n  900 ./a b.bin\nsrc/lib.rs:12: // TODO: x\n\n...\n";
        let found: Vec<&str> = paths(answer).collect();
        assert_eq!(found, ["README.md", "src/", "01-intro.md", "a b.bin", "src/lib.rs"]);
    }
}
