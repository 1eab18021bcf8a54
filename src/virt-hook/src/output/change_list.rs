//! Changes as text and as JSON.

use domain_xml::host::{Change, ChangeKind};
use serde::Serialize;
use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::udiff::UnifiedHunkHeader;
use similar::{ChangeTag, DiffOp};

use super::{Style, TerminalEscaped};

/// Lines of context around a change.
const CONTEXT_LINES: usize = 3;

/// A [`Change`] in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ChangeReport {
    /// The path of the change, as policies write it.
    pub(crate) path: String,
    /// `inserted`, `removed`, `edited` or `moved`.
    pub(crate) kind: String,
    /// The value before the change.
    pub(crate) before: Option<String>,
    /// The value after the change.
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

/// Appends a title, followed by the value before and the value after.
pub(crate) fn write_before_and_after(
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

/// Appends changes of a domain, one after the other.
pub(crate) fn write_changes(text: &mut String, style: Style, changes: &[ChangeReport]) {
    for change in changes {
        let title = format!("{}: {}", TerminalEscaped(&change.path), change.kind);
        let (before, after) = (change.before.as_deref(), change.after.as_deref());
        write_before_and_after(text, style, &title, before, after);
    }
}

/// The unified diff of two texts, without file names; empty if they are equal.
pub(crate) fn unified_diff(style: Style, before: &str, after: &str) -> String {
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

/// The differing lines with their context. `similar`'s own text diff would link all its algorithms: 0.4 MB.
fn hunks(before: &[&str], after: &[&str]) -> Vec<Vec<DiffOp>> {
    let mut capture = Compact::new(Replace::new(Capture::new()), before, after);
    match myers::diff(&mut capture, before, 0..before.len(), after, 0..after.len()) {
        Ok(()) => capture
            .into_inner()
            .into_inner()
            .into_grouped_ops(CONTEXT_LINES),
        Err(never) => match never {},
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_lines_are_shown_with_their_context() {
        let before = "a\nb\n\tc\nd\ne\nf\n";
        let text = unified_diff(Style::default(), before, &before.replace('c', "x"));
        assert_eq!(text, "@@ -1,6 +1,6 @@\n a\n b\n-\tc\n+\tx\n d\n e\n f\n");
        assert_eq!(unified_diff(Style::default(), before, before), "");
    }

    #[test]
    fn a_change_is_shown_with_the_values_before_and_after() {
        let mut text = String::new();
        let change = ChangeReport {
            path: "/domain/title".into(),
            kind: "edited".into(),
            before: Some("a".into()),
            after: Some("b\u{7}".into()),
        };
        write_changes(&mut text, Style::default(), &[change]);
        assert_eq!(text, "  /domain/title: edited\n    - a\n    + b\\u{7}\n");
    }
}
