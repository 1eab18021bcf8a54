//! Which hook made which change of the domain.

use crate::{FailurePolicy, HookPoint, Outcome, Run};

/// All changes that the hooks of a chain made to the domain, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provenance(Vec<NodeEdit>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct NodeEdit {
    path: String,
    hook: String,
    /// The value after the change, to find it in libvirt's error texts.
    after: Option<String>,
}

/// A node that several hooks changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    /// The path of the node in the first hook's change.
    pub path: String,
    /// The hooks in the order of their changes.
    pub hooks: Vec<String>,
}

impl Provenance {
    /// Collects the changes of runs in order; only changes at OnDefineDomain that were kept count.
    #[must_use]
    pub fn of(runs: &[Run]) -> Self {
        let kept = runs.iter().filter(|run| {
            run.hook_point == HookPoint::OnDefineDomain
                && run.outcome == Outcome::Ok
                && run.failure_policy != FailurePolicy::DryRun
        });
        let edits = kept.flat_map(|run| {
            run.changes.iter().map(|change| NodeEdit {
                path: change.path.clone(),
                hook: run.hook.clone(),
                after: change.after.clone(),
            })
        });
        Self(edits.collect())
    }

    /// The hook that last changed a node, a descendant or an ancestor of it.
    #[must_use]
    pub fn last_touched(&self, path: &str) -> Option<&str> {
        let path = path.trim_end_matches('/');
        let edits = self.0.iter().rev();
        let mut edits = edits.filter(|edit| within(&edit.path, path) || within(path, &edit.path));
        edits.next().map(|edit| edit.hook.as_str())
    }

    /// The hook and the path whose name or value occurs in a text such as libvirt's errors:
    /// values before names, long ones before short ones, later ones before earlier ones.
    #[must_use]
    pub fn named_in(&self, text: &str) -> Option<(&str, &str)> {
        let words: Vec<&str> = text
            .split(|c: char| !(c.is_alphanumeric() || "-_.:/".contains(c)))
            .collect();
        let score = |edit: &NodeEdit| {
            let value = edit.after.as_deref().filter(|value| value.len() > 1);
            let value = value
                .filter(|value| words.contains(value))
                .map_or(0, str::len);
            let name = name(&edit.path);
            (value, if words.contains(&name) { name.len() } else { 0 })
        };
        let best = self.0.iter().max_by_key(|edit| score(edit))?;
        (score(best) != (0, 0)).then_some((best.hook.as_str(), best.path.as_str()))
    }

    /// Nodes that several hooks changed, descendants included.
    #[must_use]
    pub fn overlaps(&self) -> Vec<Overlap> {
        let mut overlaps: Vec<Overlap> = Vec::new();
        for (index, edit) in self.0.iter().enumerate() {
            let earlier = self.0[..index]
                .iter()
                .find(|other| other.hook != edit.hook && same(&other.path, &edit.path));
            let Some(earlier) = earlier else {
                continue;
            };
            match overlaps
                .iter_mut()
                .find(|overlap| overlap.path == earlier.path)
            {
                Some(overlap) if overlap.hooks.contains(&edit.hook) => {}
                Some(overlap) => overlap.hooks.push(edit.hook.clone()),
                None => overlaps.push(Overlap {
                    path: earlier.path.clone(),
                    hooks: vec![earlier.hook.clone(), edit.hook.clone()],
                }),
            }
        }
        overlaps
    }
}

fn same(one: &str, other: &str) -> bool {
    within(one, other) || within(other, one)
}

/// Whether `inner` is `outer` or a path below it.
fn within(inner: &str, outer: &str) -> bool {
    inner
        .strip_prefix(outer)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || rest.starts_with('['))
}

/// The name of the last step, without its predicates.
fn name(path: &str) -> &str {
    let mut depth = 0_usize;
    let mut start = 0;
    for (index, c) in path.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            '/' if depth == 0 => start = index + 1,
            _ => {}
        }
    }
    let step = &path[start..];
    let end = step.find('[').unwrap_or(step.len());
    step[..end].trim_start_matches('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provenance(edits: &[(&str, &str, &str)]) -> Provenance {
        let edit = |(hook, path, after): &(&str, &str, &str)| NodeEdit {
            hook: (*hook).to_owned(),
            path: (*path).to_owned(),
            after: Some((*after).to_owned()),
        };
        Provenance(edits.iter().map(edit).collect())
    }

    #[test]
    fn the_last_hook_that_changed_a_node_is_found() {
        let disk = "/domain/devices/disk[target/@dev='vda']";
        let one = provenance(&[
            ("a", &format!("{disk}/driver/@queues"), "4"),
            ("b", "/domain/devices/disk[target/@dev='vdb']", "<disk/>"),
            ("c", "/domain/title", "x"),
        ]);
        assert_eq!(one.last_touched(disk), Some("a"));
        assert_eq!(one.last_touched(&format!("{disk}/driver")), Some("a"));
        assert_eq!(one.last_touched("/domain/devices"), Some("b"));
        assert_eq!(
            one.last_touched("/domain/devices/disk[target/@dev='vdb']/source/@dev"),
            Some("b")
        );
        assert_eq!(one.last_touched("/domain/titles"), None);
        assert_eq!(one.last_touched("/domain"), Some("c"));
    }

    #[test]
    fn libvirts_error_texts_identify_a_hook() {
        let one = provenance(&[
            (
                "a",
                "/domain/devices/disk[target/@dev='vda']/driver/@queues",
                "4",
            ),
            (
                "b",
                "/domain/devices/interface[mac/@address='x']/model/@type",
                "virtio-foo",
            ),
        ]);
        let text = "unsupported configuration: invalid model 'virtio-foo' for interface";
        assert_eq!(one.named_in(text).map(|(hook, _)| hook), Some("b"));
        let text = "XML error: Invalid value for attribute 'queues' in element 'driver'";
        assert_eq!(one.named_in(text).map(|(hook, _)| hook), Some("a"));
        assert_eq!(one.named_in("internal error: no memory"), None);
        assert_eq!(Provenance::default().named_in("x"), None);
    }

    #[test]
    fn nodes_that_several_hooks_changed_are_overlaps() {
        let one = provenance(&[
            ("a", "/domain/title", "1"),
            ("a", "/domain/title", "2"),
            ("b", "/domain/os/boot[2]", "<boot/>"),
            ("b", "/domain/title", "3"),
            ("c", "/domain/title", "4"),
            ("c", "/domain/os/boot[2]/@dev", "hd"),
            ("c", "/domain/titles", "4"),
        ]);
        let overlaps = one.overlaps();
        assert_eq!(overlaps.len(), 2);
        assert_eq!(
            (
                overlaps[0].path.as_str(),
                overlaps[0].hooks.join(" ").as_str()
            ),
            ("/domain/title", "a b c")
        );
        assert_eq!(overlaps[1].hooks, ["b", "c"]);
    }
}
