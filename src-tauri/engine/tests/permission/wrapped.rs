//! What holds for commands of any shape: nothing gets through by what is put around it, and nothing overwhelms the
//! judgement.

use super::Home;
use coppice_engine::event::Mode;
use coppice_engine::permission::{Reason, Rule, Verdict};
use proptest::prelude::*;
use std::time::{Duration, Instant};

/// Commands that do more than read, or that cannot be told.
const MORE: &[&str] = &[
    "touch X",
    "rm a",
    "tee X",
    "sort -o X a",
    "sed -i s/a/b/ a",
    "git -c core.pager=x status",
    "git commit -m x",
    "find . -delete",
    "find . -exec touch X +",
    "ls > X",
    "ls 2>> X",
    "python3 x.py",
    "./ls",
    "$x",
    "make",
    "PATH=. ls",
    "xargs touch",
    "curl -O example.org",
    "ls 'a",
    "uniq a X",
    "printf -v x a",
    "read PATH",
    "env",
    "awk 1 a",
];

/// What a command can stand in; `@` is its place.
const AROUND: &[&str] = &[
    "@",
    "@ && ls",
    "ls && @",
    "ls || @",
    "ls; @",
    "ls | @",
    "@ | cat",
    "ls & @",
    "@ &",
    "ls\n@",
    "ls #\n@",
    "ls \\\n && @",
    "(@)",
    "{ @\n}",
    "! @",
    "time @",
    "$(@)",
    "ls $(@)",
    "ls \"$(@)\"",
    "ls a$(@)b",
    "`@`",
    "ls <(@)",
    "ls >(@)",
    "cat < <(@)",
    "cat <<< $(@)",
    "cat <<E\n$(@)\nE",
    "x=$(@)",
    "x=$(@) ls",
    "echo $(( $(@) ))",
    "echo ${x:-$(@)}",
    "echo ${x[$(@)]}",
    "x[$(@)]=1",
    "ls > $(@)",
    "[[ -n $(@) ]]",
    "[ -n \"$(@)\" ]",
    "if @\nthen ls\nfi",
    "if ls\nthen @\nfi",
    "if ls\nthen ls\nelse @\nfi",
    "while @\ndo ls\ndone",
    "until ls\ndo @\ndone",
    "for f in a\ndo @\ndone",
    "for f in $(@)\ndo ls\ndone",
    "case a in\na) @\n;;\nesac",
    "case $(@) in\na) ls\n;;\nesac",
    "f() { @\n}\nf",
    "function f { @\n}\nf",
    "coproc @",
    "nice @",
    "nice -n 5 @",
    "timeout 5 @",
    "command @",
    "builtin @",
    "env @",
    "env A=b @",
    "nohup @",
    "exec @",
    "xargs @",
    "xargs -n 1 @",
    "eval '@'",
    "sh -c '@'",
    "bash -lc \"@\"",
    "sudo @",
    "stdbuf -o0 @",
    "find . -exec @ {} +",
    "trap '@' EXIT",
    "LC_ALL=C @",
    "x=a @",
    "set -e\n@",
];

/// Pieces of shell text.
const PIECES: &[&str] = &[
    "ls",
    "echo",
    "touch X",
    " touch X ",
    "X",
    "a",
    "cat",
    "$(",
    "`",
    ")",
    "(",
    "{ ",
    "; }",
    "}",
    ";",
    "&&",
    "|",
    "||",
    "&",
    "\n",
    "'",
    "\"",
    "\\",
    "$",
    "${",
    "x=",
    "x",
    "$x",
    "$((",
    "))",
    "[[ ",
    " ]]",
    "[ ",
    " ]",
    "<<E\n",
    "\nE\n",
    "<<-E\n",
    "<<'E'\n",
    "<<<",
    ">",
    ">X",
    "<",
    "<(",
    ">(",
    "#",
    " #",
    " ",
    "*",
    "?",
    "~",
    "!",
    "if ",
    " then ",
    " fi",
    " else ",
    "for x in a; do ",
    " done",
    "case a in a) ",
    " esac",
    ";;",
    "eval ",
    "$'",
    "$\"",
    "\\'",
    "\\\"",
    "\\\n",
    "=",
    "1",
    "2>&1",
    ">/dev/null",
    "&>",
    "{a,",
    "\t",
    "f() ",
    "time ",
    "coproc ",
    "a[",
    "]",
    "${x:-",
    "${x@P}",
    "$[",
    "é",
    "^",
    "%",
];

/// Commands that only read, to be disturbed.
const QUIET: &[&str] = &[
    "ls -a 'b c' \"d $x\"",
    "cat a | sort -u",
    "grep -n 'x' a",
    "echo \"$(ls)\" `pwd`",
    "for f in a b; do cat \"$f\"; done",
    "cat <<E\ntext\nE",
    "cat <<'E'\n$(touch X)\nE",
    "if [ -f a ]; then cat a; fi",
    "[[ a == a ]] && ls",
    "find . -name 'a*'",
    "echo 'touch X' \"; touch X\" \\; touch X",
    "x=a; echo ${x%a} $((1+2))",
    "ls # touch X",
    "case a in a) ls;; esac",
    "echo {a,b} $'touch X'",
    "sed -n '1,2p' a",
    "printf '%s' a",
    "(ls; pwd) 2>/dev/null",
    "echo a\\\n touch X",
];

fn around() -> impl Strategy<Value = String> {
    let layers = prop::collection::vec(prop::sample::select(AROUND), 1..4);
    (prop::sample::select(MORE), layers)
        .prop_map(|(inner, layers)| layers.iter().fold(inner.to_owned(), |text, layer| layer.replace('@', &text)))
}

/// Text that is much like a command.
fn soup() -> impl Strategy<Value = String> {
    let pieces = prop::collection::vec(prop::sample::select(PIECES), 1..14);
    pieces.prop_map(|pieces| pieces.concat())
}

/// A quiet command with pieces put into it, or with characters taken out.
fn disturbed() -> impl Strategy<Value = String> {
    let change = (any::<prop::sample::Index>(), prop::option::of(prop::sample::select(PIECES)));
    (prop::sample::select(QUIET), prop::collection::vec(change, 1..4)).prop_map(|(text, changes)| {
        changes.into_iter().fold(text.to_owned(), |mut text, (at, piece)| {
            let at = text.floor_char_boundary(at.index(text.len() + 1));
            match piece {
                Some(piece) => text.insert_str(at, piece),
                None if at < text.len() => drop(text.remove(at)),
                None => {}
            }
            text
        })
    })
}

proptest! {
    #[test]
    fn nothing_that_is_put_around_a_command_gets_it_through(text in around()) {
        let home = Home::new();
        let verdict = home.command(Mode::Ask, &text);
        prop_assert!(matches!(verdict, Verdict::Ask(_)), "{text:?}: {verdict:?}");
        let verdict = home.command(Mode::ReadOnly, &text);
        prop_assert!(matches!(verdict, Verdict::Refuse(_)), "{text:?}: {verdict:?}");
    }

    #[test]
    fn any_text_is_judged_in_little_time(text in prop_oneof![".{0,300}", "[ -~\n]{0,300}", soup(), disturbed()]) {
        let home = Home::new();
        let begun = Instant::now();
        for mode in [Mode::ReadOnly, Mode::Ask, Mode::AcceptEdits, Mode::Full] {
            home.command(mode, &text);
        }
        prop_assert!(begun.elapsed() < Duration::from_secs(5), "{text:?} took {:?}", begun.elapsed());
    }

    /// The shell itself is the judge of the judgement.
    #[test]
    fn what_counts_as_only_reading_writes_nothing_when_bash_runs_it(text in prop_oneof![soup(), disturbed(), disturbed()]) {
        let home = Home::new();
        if home.command(Mode::Ask, &text) == Verdict::FreeConfined {
            let before = listing(&home);
            run(&home, &text);
            prop_assert_eq!(before, listing(&home), "{:?}", text);
        }
    }
}

fn listing(home: &Home) -> Vec<String> {
    let entries = std::fs::read_dir(&home.cwd).unwrap().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[expect(clippy::disallowed_methods, reason = "the real shell shows what it makes of a text")]
fn run(home: &Home, text: &str) {
    let mut shell = std::process::Command::new("timeout");
    shell.args(["5", "bash", "-c", text]).current_dir(&home.cwd).env("HOME", &home.home);
    let null = std::process::Stdio::null;
    shell.stdin(null()).stdout(null()).stderr(null()).status().unwrap();
}

#[test]
fn the_shell_that_judges_the_judgement_does_write() {
    let home = Home::new();
    let before = listing(&home);
    run(&home, "ls && touch X");
    assert_ne!(before, listing(&home));
}

#[test]
fn a_text_that_nests_without_end_is_asked_about_and_does_no_harm() {
    let openings = [
        "(",
        "{ ",
        "$(",
        "\"$(",
        "`",
        "<(",
        "$((",
        "((",
        "${x:-",
        "\"${x:-",
        "[[ ( ",
        "!(",
        "! ",
        "if ",
        "while ",
        "until ",
        "if a; then ",
        "for x in ",
        "for x in a; do ",
        "case x in a) ",
        "case x in ",
        "f() ",
        "f(){ ",
        "function f ",
        "time ",
        "coproc ",
        "select x in ",
        "x=(",
        "x[$(",
        "<<<$(",
        "{a,",
        "a && ",
        "a || ",
        "a; ",
        "a | ",
        "a & ",
        "a\n",
        "\\\n",
        "<<E ",
        "\"\"",
        "''",
        "$x",
        "a=1 ",
        "> a ",
        "$[",
        "[[ a && ",
        "$((1+",
        "eval ",
        "sh -c '",
        "xargs ",
        "find . -exec ",
        "nice ",
    ];
    // As little stack as a worker has.
    let judging = move || {
        let home = Home::new();
        for opening in openings {
            for count in [1, 15, 16, 17, 40, 255, 256, 257, 1000, 4000, 60_000] {
                let text = format!("{}ls", opening.repeat(count));
                let begun = Instant::now();
                let verdict = home.command(Mode::Ask, &text);
                assert!(begun.elapsed() < Duration::from_secs(5), "{opening:?} {count} took {:?}", begun.elapsed());
                let long = text.len() > 8 * 1024;
                let unclear = matches!(&verdict, Verdict::Ask(Reason { rule: Rule::Unclear, .. }));
                assert!(!long || unclear, "{opening:?} {count}: {verdict:?}");
            }
        }
    };
    std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(judging).unwrap().join().unwrap();
}
