//! What a page shows of a command's output, against what it printed.

/// Stands for anything.
const ANY: &str = "...";

/// Whether they agree; the page's lines may have `...` in them, and be it for any number of lines. Columns are as
/// wide as what is in them.
pub(crate) fn agrees(shown: &str, printed: &str) -> bool {
    lines_agree(&lines(shown), &lines(printed))
}

fn lines(text: &str) -> Vec<String> {
    text.trim_end().lines().map(narrowed).collect()
}

/// With one blank where there are more, but for those that it begins with.
fn narrowed(line: &str) -> String {
    let words = line.trim_start();
    let indent = &line[..line.len() - words.len()];
    let words: Vec<_> = words.split_whitespace().collect();
    format!("{indent}{}", words.join(" "))
}

fn lines_agree(shown: &[String], printed: &[String]) -> bool {
    match shown {
        [] => printed.is_empty(),
        [first, rest @ ..] if first.trim() == ANY => {
            (0..=printed.len()).any(|from| lines_agree(rest, &printed[from..]))
        }
        [first, rest @ ..] => printed
            .split_first()
            .is_some_and(|(line, after)| line_agrees(first, line) && lines_agree(rest, after)),
    }
}

fn line_agrees(shown: &str, printed: &str) -> bool {
    let Some((head, tail)) = shown.split_once(ANY) else {
        return shown == printed;
    };
    let Some(rest) = printed.strip_prefix(head) else {
        return false;
    };
    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.into_iter().any(|at| line_agrees(tail, &rest[at..]))
}

#[test]
fn three_dots_stand_for_anything() {
    for (shown, printed) in [
        ("a\nb\n", "a\nb"),
        ("in ... ms, ok", "in 12 ms, ok"),
        ("a\n...\nz", "a\nb\nc\nz"),
        ("a\n...\nz", "a\nz"),
        ("...", ""),
        ("a ...", "a b"),
        ("p50     ... ms   -", "p50  12 ms       -"),
    ] {
        assert!(agrees(shown, printed), "{shown} and {printed}");
    }
    for (shown, printed) in [
        ("a", "b"),
        ("  a", "a"),
        ("a", "a\nb"),
        ("a\nb", "a"),
        ("in ... ms, ok", "in 12 s, ok"),
        ("a\n...\nz", "a\nb"),
        ("", "a"),
    ] {
        assert!(!agrees(shown, printed), "{shown} and {printed}");
    }
}
