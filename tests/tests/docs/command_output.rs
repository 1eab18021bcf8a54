//! Compares the output on a page with a command's real output.

/// Matches anything.
const ANY: &str = "...";

/// Whether the output matches. On the page, `...` matches any text in a line, or any number of lines. The width of
/// columns is ignored.
pub(crate) fn matches(shown: &str, last_output: &str) -> bool {
    lines_match(&lines(shown), &lines(last_output))
}

fn lines(text: &str) -> Vec<String> {
    text.trim_end().lines().map(collapse_blanks).collect()
}

/// Replaces several blanks by one, except at the start of the line.
fn collapse_blanks(line: &str) -> String {
    let words = line.trim_start();
    let indent = &line[..line.len() - words.len()];
    let words: Vec<_> = words.split_whitespace().collect();
    format!("{indent}{}", words.join(" "))
}

fn lines_match(shown: &[String], last_output: &[String]) -> bool {
    match shown {
        [] => last_output.is_empty(),
        [first, rest @ ..] if first.trim() == ANY => {
            (0..=last_output.len()).any(|from| lines_match(rest, &last_output[from..]))
        }
        [first, rest @ ..] => last_output
            .split_first()
            .is_some_and(|(line, after)| line_matches(first, line) && lines_match(rest, after)),
    }
}

fn line_matches(shown: &str, last_output: &str) -> bool {
    let Some((head, tail)) = shown.split_once(ANY) else {
        return shown == last_output;
    };
    let Some(rest) = last_output.strip_prefix(head) else {
        return false;
    };
    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.into_iter().any(|at| line_matches(tail, &rest[at..]))
}

#[test]
fn three_dots_match_anything() {
    for (shown, last_output) in [
        ("a\nb\n", "a\nb"),
        ("in ... ms, ok", "in 12 ms, ok"),
        ("a\n...\nz", "a\nb\nc\nz"),
        ("a\n...\nz", "a\nz"),
        ("...", ""),
        ("a ...", "a b"),
        ("p50     ... ms   -", "p50  12 ms       -"),
    ] {
        assert!(matches(shown, last_output), "{shown} and {last_output}");
    }
    for (shown, last_output) in [
        ("a", "b"),
        ("  a", "a"),
        ("a", "a\nb"),
        ("a\nb", "a"),
        ("in ... ms, ok", "in 12 s, ok"),
        ("a\n...\nz", "a\nb"),
        ("", "a"),
    ] {
        assert!(!matches(shown, last_output), "{shown} and {last_output}");
    }
}
