//! Compares the output on a page with a command's real output.

/// Matches any text, or any number of lines.
const WILDCARD: &str = "...";

/// Whether the output on the page (`shown`) matches the real output. `...` matches any text in a line, or, alone on a
/// line, any number of lines. The width of columns is ignored.
pub(crate) fn matches(shown: &str, output: &str) -> bool {
    lines_match(&lines(shown), &lines(output))
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

fn lines_match(shown: &[String], output: &[String]) -> bool {
    match shown {
        [] => output.is_empty(),
        [first, rest @ ..] if first.trim() == WILDCARD => {
            (0..=output.len()).any(|from| lines_match(rest, &output[from..]))
        }
        [first, rest @ ..] => output
            .split_first()
            .is_some_and(|(line, after)| line_matches(first, line) && lines_match(rest, after)),
    }
}

fn line_matches(shown: &str, output: &str) -> bool {
    let Some((head, tail)) = shown.split_once(WILDCARD) else {
        return shown == output;
    };
    let Some(rest) = output.strip_prefix(head) else {
        return false;
    };
    let ends = rest
        .char_indices()
        .map(|(index, _)| index)
        .chain([rest.len()]);
    ends.into_iter()
        .any(|index| line_matches(tail, &rest[index..]))
}

#[test]
fn three_dots_match_anything() {
    for (shown, output) in [
        ("a\nb\n", "a\nb"),
        ("in ... ms, ok", "in 12 ms, ok"),
        ("a\n...\nz", "a\nb\nc\nz"),
        ("a\n...\nz", "a\nz"),
        ("...", ""),
        ("a ...", "a b"),
        ("p50     ... ms   -", "p50  12 ms       -"),
    ] {
        assert!(matches(shown, output), "{shown} and {output}");
    }
    for (shown, output) in [
        ("a", "b"),
        ("  a", "a"),
        ("a", "a\nb"),
        ("a\nb", "a"),
        ("in ... ms, ok", "in 12 s, ok"),
        ("a\n...\nz", "a\nb"),
        ("", "a"),
    ] {
        assert!(!matches(shown, output), "{shown} and {output}");
    }
}
