//! The looks of the tour, as the children play them: one tool call a step, and an answer that quotes what came of them.

use super::history::{Done, done, said};
use super::result::{self, Found, More};
use super::titles::{
    CHANGES, EVERYTHING, IN_ALL, IN_ORDER, KINDS, NO_REPOSITORY, NOTES_LEFT, file_name, is_text, sized,
};
use super::{Act, facts, orders};
use crate::event::Block;
use crate::llm::{Message, Request, ToolSpec};
use crate::prompt;
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
pub const REPORT: &str = "I am the rehearsal. All that follows stands in the results of my tools.";
/// Stands in an answer once where commands may not be run or none can be.
pub const NO_COMMANDS: &str =
    "No commands are run here, so what needs them is left out: sizes, counts and what git knows.";
/// How many lines of a result are quoted, and how many bytes of a line.
const LINES: usize = 6;
const LINE: usize = 160;
/// How many of a tool's remarks are repeated.
const NOTES: usize = 2;
/// For a shell: all files, each ended by NUL. What git ignores is no work of a person, so it is left out, unless the
/// folder as a whole is ignored. Like all that is run here it is seen to only read, so that it is not asked about,
/// for which git's names with a line break in them are left out.
const FILES: &str = r#"if git check-ignore -q . 2>/dev/null; [ "$?" = 1 ]
then git ls-files -coz --deduplicate --exclude-standard | tr '\0\n' '\n ' |
  while read -r; do [[ -f $REPLY && ! -L $REPLY ]] && printf './%s\0' "$REPLY"; done
else find . -name .git -prune -o -type f -print0
fi"#;

/// For a shell: the first lines of what a command prints, and how many there are in all.
fn first(command: &str) -> String {
    format!(
        "all=$(\n{command}\n)\n\
         [ -z \"$all\" ] || printf '%s\\n' \"$all\" | head -n {LINES}\n\
         count=$(printf '%s\\n' \"$all\" | wc -l)\n\
         [ \"$count\" -le {LINES} ] || printf '(The first {LINES} of %d.)\\n' \"$count\""
    )
}

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
        .filter_map(|(at, message)| if let Message::User(text) = message { Some((at, said(text))) } else { None })
        .filter(|(_, text)| !text.is_empty())
        .flat_map(|(at, text)| orders::read(&text, Path::new(&request.cwd)).into_iter().map(move |order| (at, order)))
        .collect();
    let fresh = |at: usize| answered.is_none_or(|answered| answered < at);
    let stop = asked.iter().any(|(at, order)| fresh(*at) && *order == Order::Stop);
    let go_on = answered.is_none() || asked.iter().any(|(at, order)| fresh(*at) && *order == Order::GoOn);

    let toolbox = Toolbox { tools: &request.tools, commands: !request.system.contains(prompt::LOOKS_ONLY) };
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
        let first = !request.messages.iter().any(|message| matches!(message, Message::Assistant(_)));
        let how = if first { format!(" {}", orders::HOW) } else { String::new() };
        acts.push(Act::Say(format!("{}{how}\n", step.say)));
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
    let made: Vec<(&Step, &Done<'_>)> = plan.iter().filter_map(|step| Some((step, find(0, step)?))).collect();
    if go_on {
        let seen = made.iter().filter(|(_, done)| done.ok);
        let seen: Vec<(&str, Found<'_>)> =
            seen.map(|(step, done)| (step.title.as_str(), result::found(done.tool, done.text))).collect();
        if let Some(facts) = facts::of(&seen) {
            text.push_str(&format!("\n{}{facts}\n", facts::BEGIN));
        }
        for (step, done) in &made {
            text.push_str(&format!("\n{}\n", finding(step, done)));
        }
        if !toolbox.has("bash") {
            text.push_str(&format!("\n{NO_COMMANDS}\n"));
        }
    } else {
        text.push_str("\nMy earlier report stands.");
    }
    if made.len() < plan.len() {
        let (made, all) = (made.len(), plan.len());
        text.push_str(&format!("\n{made} of {all} steps are done. Say `go on` for the rest."));
    } else if go_on {
        text.push_str(&match plan.len() {
            1 => "\nThe one step is done.".to_owned(),
            all => format!("\nAll {all} steps are done."),
        });
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
            Order::Files(pattern) => format!("you ask for files like `{pattern}`, so I look for them."),
            Order::Path { path, .. } => format!("you point to `{path}`, so I look into it."),
            Order::Other(text) => {
                format!("I read \"{}\", and I am no model. {}", shortened(text), orders::HOW)
            }
        })
        .collect();
    said.into_iter().map(|said| Act::Say(format!("I am the rehearsal: {said}\n\n"))).collect()
}

/// What an order asks to be done, if it can be.
fn errand(order: &Order, toolbox: &Toolbox<'_>) -> Option<Step> {
    match order {
        Order::Search(pattern) => toolbox.grep(pattern, 900).map(|step| Step { title: format!("`{pattern}`"), ..step }),
        Order::Files(pattern) => {
            toolbox.glob(pattern, 900).map(|step| Step { title: format!("Files like `{pattern}`"), ..step })
        }
        Order::Path { path, folder: true } => toolbox
            .bash(&format!("ls -la -- {}", quote(path)), 900)
            .or_else(|| toolbox.glob(&format!("{}/*", path.trim_end_matches('/')), 900))
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

/// The latest attempt at a step of the plan.
fn attempt<'a, 'b>(history: &'b [Done<'a>], step: &Option<Step>) -> Option<&'b Done<'a>> {
    let step = step.as_ref()?;
    history.iter().rfind(|done| done.tool == step.tool && done.args == step.args)
}

/// The lines that an earlier step of the plan found.
fn lines<'a>(history: &[Done<'a>], step: &Option<Step>) -> Vec<&'a str> {
    let done = attempt(history, step).filter(|done| done.ok);
    done.map(|done| result::found(done.tool, done.text).lines).unwrap_or_default()
}

fn beginning(path: &str, toolbox: &Toolbox<'_>, pause: u64, say: &str) -> Option<Step> {
    titled(toolbox.read(path, pause), &format!("`{path}`"), say)
}

fn here(history: &[Done<'_>], toolbox: &Toolbox<'_>) -> Vec<Option<Step>> {
    let pause = 1300;
    let top = titled(toolbox.glob("*", pause), "At the top", "first I look at what lies at the top of this folder.");
    let names = lines(history, &top);
    let read = introduction(&names).and_then(|found| match found {
        Introduction::Text(path) => {
            beginning(path, toolbox, pause, "this one introduces the rest, so I read its beginning.")
        }
        Introduction::Manifest(path) => {
            let pattern = r#"^\s*"?description"?\s*[:=]"#;
            let step = toolbox.step("grep", json!({"pattern": pattern, "path": path, "limit": 1}), pause);
            let title = format!("How `{path}` describes it");
            titled(step, &title, "no document introduces the rest, so I look how its manifest describes it.")
        }
    });
    if !toolbox.has("bash") {
        let documents = titled(toolbox.glob("**/*.md", pause), "Documents", "last, which documents there are.");
        return vec![top, read, documents];
    }
    let kinds = r#"[[ $file =~ [^/]\.[A-Za-z0-9]+$ ]] && printf '.%s\n' "${file##*.}" || printf '(no suffix)\n'"#;
    let kinds = toolbox.counted(KINDS, kinds, pause);
    let kinds = titled(kinds, KINDS, "now how many files of each kind there are.");
    let folder = r#"[[ $file == */* ]] && printf '%s/\n' "${file%%/*}" || printf '(at the top)\n'"#;
    let folders = toolbox.counted("Files by folder", folder, pause);
    let folders = titled(folders, "Files by folder", "last, which folders hold most of them.");
    vec![top, read, kinds, folders]
}

fn largest(history: &[Done<'_>], toolbox: &Toolbox<'_>) -> Vec<Option<Step>> {
    let pause = 1500;
    if !toolbox.has("bash") {
        return vec![titled(toolbox.glob("**/*", pause), EVERYTHING, "I cannot measure files, so I list them.")];
    }
    let count = format!(
        "# How many files, and how large\n\
         count=$(\n{FILES} | tr -cd '\\0' | wc -c\n)\n\
         size=$(\n{FILES} | du -lcb --files0-from=- 2>/dev/null | tail -n 1 | cut -f 1\n)\n\
         [ -n \"$size\" ] || size=$(find . -type f -print0 | xargs -0 -r cat | wc -c)\n\
         files=files\n\
         [ \"$count\" -ne 1 ] || files=file\n\
         printf '%d %s, %d bytes\\n' \"$count\" \"$files\" \"$size\""
    );
    let count = toolbox.bash(&count, pause);
    let count = titled(count, IN_ALL, "first I count the files and their bytes, without what git ignores.");
    let sizes = r"xargs -0 -r wc -c | grep -v '^ *[0-9]* total$' | sort -rn";
    let sizes = toolbox.files("The largest files", sizes, pause);
    let sizes = titled(sizes, IN_ORDER, "now I put them in order of their sizes.");
    let text = lines(history, &sizes).into_iter().filter_map(sized).find(|path| is_text(path));
    let read = text.and_then(|path| {
        beginning(path, toolbox, pause, "this is the largest text among them, so I read its beginning.")
    });
    let last = r"if stat -c %n . > /dev/null 2>&1
then xargs -0 -r stat -c '%.16y %n'
else xargs -0 -r stat -f '%Sm %N' -t '%Y-%m-%d %H:%M'
fi | sort -r";
    let last = toolbox.files("What changed last", last, pause);
    let last = titled(last, "Changed last", "and what changed last.");
    vec![count, sizes, read, last]
}

fn open_ends(history: &[Done<'_>], toolbox: &Toolbox<'_>) -> Vec<Option<Step>> {
    let pause = 1300;
    let notes = titled(
        toolbox.grep(r"\b(TODO|FIXME|XXX)\b", pause),
        NOTES_LEFT,
        "first I look for notes that people leave themselves.",
    );
    let status = format!(
        "case $(LC_ALL=C git rev-parse --is-inside-work-tree 2>&1) in\n\
         *'not a git repository'*) echo '{NO_REPOSITORY}' ;;\n\
         *) git status --short -- . ;;\n\
         esac"
    );
    let status = titled(toolbox.bash(&status, pause), CHANGES, "is something not committed?");
    let log = toolbox.bash(&first("git log --oneline -- ."), pause);
    let log = titled(log, "Committed last", "what was done last?");
    // Where git has nothing to say about changes, it has no commits to tell either.
    let log = log.filter(|_| {
        attempt(history, &status).is_none_or(|status| status.ok) && lines(history, &status) != [NO_REPOSITORY]
    });
    let tests = titled(toolbox.glob("**/*test*", pause), "Names with \"test\"", "are there tests?");
    let unfinished = titled(
        toolbox.grep(r"\b(unimplemented|not implemented|HACK)\b", pause),
        "Said to be unfinished",
        "last, what says of itself that it is not finished.",
    );
    vec![notes, status, log, tests, unfinished]
}

/// What tells most likely what a folder is for.
#[derive(Debug, PartialEq)]
enum Introduction<'a> {
    /// A document.
    Text(&'a str),
    /// The description of a package.
    Manifest(&'a str),
}

/// The likeliest among the names at the top.
fn introduction<'a>(names: &[&'a str]) -> Option<Introduction<'a>> {
    const MANIFESTS: [&str; 4] = ["package.json", "Cargo.toml", "pyproject.toml", "composer.json"];
    let find = |is: &dyn Fn(&str) -> bool| names.iter().copied().find(|name| is(name));
    find(&is_readme)
        .or_else(|| find(&|name| name.ends_with(".md") && !name.starts_with('.')))
        .map(Introduction::Text)
        .or_else(|| find(&|name| MANIFESTS.contains(&name)).map(Introduction::Manifest))
}

/// What came of a step, quoted.
fn finding(step: &Step, done: &Done<'_>) -> String {
    let Step { title, .. } = step;
    if !done.ok {
        return format!("**{title}**: this did not work: {}", shortened(result::why(done.tool, done.text)));
    }
    let found = result::found(done.tool, done.text);
    if found.lines == [NO_REPOSITORY] {
        return NO_REPOSITORY.to_owned();
    }
    let shown = found.lines.len().min(LINES);
    let unit = if step.tool == "glob" { "name" } else { "line" };
    let mut text = match (found.lines.len(), found.more) {
        (0, _) => format!("**{title}**: nothing."),
        (_, More::Of(all)) => format!("**{title}** (the first {shown} of {all} {unit}s)"),
        (all, More::Some) => format!("**{title}** (the first {shown} of more than {all} {unit}s)"),
        (all, More::None) if all > shown => format!("**{title}** (the first {shown} of {all} {unit}s)"),
        (1, More::None) => format!("**{title}** (1 {unit})"),
        (all, More::None) => format!("**{title}** ({all} {unit}s)"),
    };
    for (at, line) in found.lines.iter().take(LINES).enumerate() {
        text.push_str(if at == 0 { "\n\n    " } else { "\n    " });
        text.push_str(&shortened(line));
    }
    for note in found.notes.iter().take(NOTES) {
        text.push_str(&format!("\n\n({})", shortened(note)));
    }
    if found.notes.len() > NOTES {
        text.push_str(&format!("\n\n(And {} more like this.)", found.notes.len() - NOTES));
    }
    text
}

/// A line of a tool, cut where it is too long to quote.
fn shortened(line: &str) -> String {
    let cut = crate::text::cut(line, LINE);
    if cut.len() < line.len() { format!("{cut}…") } else { cut.to_owned() }
}

/// The tools that may be called, and how they name their arguments.
struct Toolbox<'a> {
    tools: &'a [ToolSpec],
    /// Whether commands may be run.
    commands: bool,
}

impl Toolbox<'_> {
    fn has(&self, tool: &str) -> bool {
        (self.commands || tool != "bash") && self.tools.iter().any(|spec| spec.name == tool)
    }

    fn step(&self, tool: &'static str, args: Value, pause: u64) -> Option<Step> {
        self.has(tool).then(|| Step {
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

    /// A command over all files. What it is for stands before it, for whoever watches.
    fn files(&self, what: &str, command: &str, pause: u64) -> Option<Step> {
        self.bash(&format!("# {what}\n{}", first(&format!("{FILES} | {command}"))), pause)
    }

    /// How many files there are of each kind, most first. `kind` prints the kind of `file`, a path below the folder.
    fn counted(&self, what: &str, kind: &str, pause: u64) -> Option<Step> {
        let each = format!("while read -r; do file=${{REPLY#./}}; {kind}; done");
        let order = "sort | uniq -c | sort -k1,1nr -k2 | sed 's/^ *//'";
        self.files(what, &format!(r"tr '\0\n' '\n ' | {each} | {order}"), pause)
    }

    fn glob(&self, pattern: &str, pause: u64) -> Option<Step> {
        self.step("glob", json!({"pattern": pattern}), pause)
    }

    fn grep(&self, pattern: &str, pause: u64) -> Option<Step> {
        self.step("grep", json!({"pattern": pattern}), pause)
    }

    fn read(&self, path: &str, pause: u64) -> Option<Step> {
        // No more than is quoted, so that both tell of the same lines.
        self.step("read_file", json!({"path": path, "limit": LINES}), pause)
    }
}

/// Whether a name is that of a text that introduces the rest.
fn is_readme(path: &str) -> bool {
    let name = file_name(path).to_lowercase();
    name.starts_with("readme") && (is_text(&name) || !name.contains('.')) && !path.ends_with('/')
}

/// A path as a shell takes it.
fn quote(path: &str) -> String {
    format!("'{}'", path.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_tools_tell_them() {
        assert_eq!(sized("  900 ./a b.bin"), Some("a b.bin"));
        assert_eq!(sized("7 ./01 intro.md"), Some("01 intro.md"));
        assert_eq!(sized("wc: x: Permission denied"), None);
        let readmes = ["README.md", "readme", "Readme.txt", "README.pdf", "readme/", "README.md.gz", "a.md"];
        assert_eq!(readmes.map(is_readme), [true, true, true, false, false, false, false]);
    }

    #[test]
    fn a_folder_is_introduced_by_its_likeliest_document_or_by_none() {
        let of = |names: &[&'static str]| introduction(names);
        assert_eq!(of(&[".a.md", "a.md", "readme.rst", "x.json"]), Some(Introduction::Text("readme.rst")));
        assert_eq!(
            of(&[".hidden.sh", ".a.md", "biome.json", "package.json", "z.md"]),
            Some(Introduction::Text("z.md"))
        );
        assert_eq!(of(&[".hidden.sh", "biome.json", "package.json"]), Some(Introduction::Manifest("package.json")));
        assert_eq!(of(&[".hidden.sh", "biome.json", "a.rs"]), None);
    }
}
