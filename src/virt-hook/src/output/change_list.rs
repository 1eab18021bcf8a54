//! Changes as text and as JSON.

use domain_xml::{Change, ChangeKind};
use serde::Serialize;
use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::udiff::UnifiedHunkHeader;
use similar::{ChangeTag, DiffOp};

use super::{Style, TerminalEscaped};

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// A [`Change`] in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ChangeReport {
    /// Where, as policies write it.
    pub(crate) path: String,
    /// `inserted`, `removed`, `edited` or `moved`.
    pub(crate) kind: String,
    /// What was there.
    pub(crate) before: Option<String>,
    /// What is there now.
    pub(crate) after: Option<String>,
}

impl From<&Change> for ChangeReport {
    fn from(change: &Change) -> Self {
        let kind = match change.kind {
            ChangeKind::Inserted => "inserted",
            ChangeKind::Removed => "removed",
            ChangeKind::Edited => "edited",
            ChangeKind::Moved => "moved",
        };
        Self {
            path: change.path.clone(),
            kind: kind.to_owned(),
            before: change.before.clone(),
            after: change.after.clone(),
        }
    }
}

/// A title, followed by the value before and the value after.
pub(crate) fn sides(
    text: &mut String,
    style: Style,
    title: &str,
    before: Option<&str>,
    after: Option<&str>,
) {
    *text += &format!("  {title}\n");
    for line in before.into_iter().flat_map(str::lines) {
        *text += &format!(
            "    {}\n",
            style.bad(&format!("- {}", TerminalEscaped(line)))
        );
    }
    for line in after.into_iter().flat_map(str::lines) {
        *text += &format!(
            "    {}\n",
            style.good(&format!("+ {}", TerminalEscaped(line)))
        );
    }
}

/// Changes of a domain, one after the other.
pub(crate) fn changes(text: &mut String, style: Style, changes: &[ChangeReport]) {
    for change in changes {
        let title = format!("{}: {}", TerminalEscaped(&change.path), change.kind);
        let (before, after) = (change.before.as_deref(), change.after.as_deref());
        sides(text, style, &title, before, after);
    }
}

/// Two texts as a unified diff without its file names; empty when they are the same.
pub(crate) fn lines(style: Style, before: &str, after: &str) -> String {
    let before: Vec<&str> = before.split_inclusive('\n').collect();
    let after: Vec<&str> = after.split_inclusive('\n').collect();
    let mut text = String::new();
    for hunk in hunks(&before, &after) {
        text += &format!(
            "{}\n",
            style.strong(&UnifiedHunkHeader::new(&hunk).to_string())
        );
        for change in hunk.iter().flat_map(|op| op.iter_changes(&before, &after)) {
            let line = TerminalEscaped(change.value().trim_end_matches('\n')).to_string();
            let line = format!("{}{line}", change.tag());
            text += &match change.tag() {
                ChangeTag::Equal => line,
                ChangeTag::Delete => style.bad(&line),
                ChangeTag::Insert => style.good(&line),
            };
            text.push('\n');
        }
    }
    text
}

/// What differs, with the lines around it. `similar`'s own text differ brings all its algorithms: 0.4 MB.
fn hunks(before: &[&str], after: &[&str]) -> Vec<Vec<DiffOp>> {
    let mut capture = Compact::new(Replace::new(Capture::new()), before, after);
    match myers::diff(&mut capture, before, 0..before.len(), after, 0..after.len()) {
        Ok(()) => capture.into_inner().into_inner().into_grouped_ops(CONTEXT),
        Err(never) => match never {},
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_differ_are_shown_with_those_around_them() {
        let before = "a\nb\n\tc\nd\ne\nf\n";
        let text = lines(Style::default(), before, &before.replace('c', "x"));
        assert_eq!(text, "@@ -1,6 +1,6 @@\n a\n b\n-\tc\n+\tx\n d\n e\n f\n");
        assert_eq!(lines(Style::default(), before, before), "");
    }

    #[test]
    fn a_change_has_two_sides() {
        let mut text = String::new();
        let change = ChangeReport {
            path: "/domain/title".into(),
            kind: "edited".into(),
            before: Some("a".into()),
            after: Some("b\u{7}".into()),
        };
        changes(&mut text, Style::default(), &[change]);
        assert_eq!(text, "  /domain/title: edited\n    - a\n    + b\\u{7}\n");
    }
}
