//! Tracks which hook made which change of the domain.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use domain_xml::host::Budget;

use crate::{FailurePolicy, HookPoint, Outcome, Run};

/// All changes that the hooks of a chain made to the domain, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provenance(Vec<NodeEdit>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct NodeEdit {
    path: String,
    hook: String,
    /// The value after the change, which may occur in libvirt's error texts.
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
    /// Collects the changes of `runs` in order. Only kept changes of the domain or of a device
    /// are collected.
    #[must_use]
    pub fn of(runs: &[Run]) -> Self {
        let kept = runs.iter().filter(|run| {
            matches!(
                run.hook_point,
                HookPoint::OnDefineDomain | HookPoint::OnAttachDevice
            ) && run.outcome == Outcome::Ok
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

    /// The hook that last changed a node, one of its descendants or one of its ancestors.
    #[must_use]
    pub fn last_touched(&self, path: &str) -> Option<&str> {
        let path = path.trim_end_matches('/');
        let edits = self.0.iter().rev();
        let mut edits =
            edits.filter(|edit| is_within(&edit.path, path) || is_within(path, &edit.path));
        edits.next().map(|edit| edit.hook.as_str())
    }

    /// Finds the change whose value or name occurs in `text`, such as an error of libvirt, and returns its hook and
    /// path. Values take precedence over names, longer ones over shorter ones, and later changes over earlier ones.
    #[must_use]
    pub fn hook_of_refusal(&self, text: &str) -> Option<(&str, &str)> {
        let words: HashSet<&str> = text
            .split(|c: char| !(c.is_alphanumeric() || "-_.:/".contains(c)))
            .collect();
        let score = |edit: &NodeEdit| {
            let value = edit.after.as_deref().filter(|value| value.len() > 1);
            let value = value
                .filter(|value| words.contains(value))
                .map_or(0, str::len);
            let name = last_step_name(&edit.path);
            (value, if words.contains(&name) { name.len() } else { 0 })
        };
        let best = self.0.iter().max_by_key(|edit| score(edit))?;
        (score(best) != (0, 0)).then_some((best.hook.as_str(), best.path.as_str()))
    }

    /// The nodes that several hooks changed. A change of a descendant counts as a change of the node.
    #[must_use]
    pub fn overlaps(&self) -> Vec<Overlap> {
        self.overlaps_within(&Budget::unlimited())
    }

    /// The total length of all paths in bytes.
    pub(crate) fn path_bytes(&self) -> usize {
        self.0.iter().map(|edit| edit.path.len()).sum()
    }

    /// Like [`Self::overlaps`], within a budget. The cost is linear in the total length of the paths.
    pub(crate) fn overlaps_within(&self, budget: &Budget<'_>) -> Vec<Overlap> {
        let mut tree = EditTree::default();
        let mut overlaps: Vec<Overlap> = Vec::new();
        let mut index_of_path: HashMap<&str, usize> = HashMap::new();
        for (index, edit) in self.0.iter().enumerate() {
            if !budget.spend(1 + edit.path.len() as u64 / 16) {
                break;
            }
            let Some(earlier) = tree.insert(index, edit) else {
                continue;
            };
            let earlier = &self.0[earlier];
            let index = *index_of_path.entry(&earlier.path).or_insert_with(|| {
                overlaps.push(Overlap {
                    path: earlier.path.clone(),
                    hooks: vec![earlier.hook.clone()],
                });
                overlaps.len() - 1
            });
            if !overlaps[index].hooks.contains(&edit.hook) {
                overlaps[index].hooks.push(edit.hook.clone());
            }
        }
        overlaps
    }
}

/// A tree of the edits by the steps of their paths.
#[derive(Default)]
struct EditTree<'a> {
    /// The index of a child node, by the index of its parent and the step.
    steps: HashMap<(usize, &'a str), usize>,
    /// The first node is the root, at which no path ends.
    nodes: Vec<EditNode<'a>>,
}

#[derive(Default, Clone, Copy)]
struct EditNode<'a> {
    /// Edits of exactly this node.
    of_node: FirstEdits<'a>,
    /// Edits of this node and of its descendants.
    of_subtree: FirstEdits<'a>,
}

/// Index and hook of the first edit, and of the first edit by another hook.
#[derive(Default, Clone, Copy)]
struct FirstEdits<'a>([Option<(usize, &'a str)>; 2]);

impl<'a> EditTree<'a> {
    /// Adds an edit. Returns the index of the first edit by another hook of the same node, an ancestor or a descendant.
    fn insert(&mut self, index: usize, edit: &'a NodeEdit) -> Option<usize> {
        if self.nodes.is_empty() {
            self.nodes.push(EditNode::default());
        }
        let hook = edit.hook.as_str();
        let mut earlier: Option<usize> = None;
        let mut add_candidate =
            |edit: Option<usize>| earlier = earlier.into_iter().chain(edit).min();
        let mut node = 0;
        for step in steps(&edit.path) {
            let new = self.nodes.len();
            node = *self.steps.entry((node, step)).or_insert(new);
            if node == new {
                self.nodes.push(EditNode::default());
            }
            add_candidate(self.nodes[node].of_node.by_other_hook(hook));
            self.nodes[node].of_subtree.add(index, hook);
        }
        add_candidate(self.nodes[node].of_subtree.by_other_hook(hook));
        self.nodes[node].of_node.add(index, hook);
        earlier
    }
}

impl<'a> FirstEdits<'a> {
    fn add(&mut self, index: usize, hook: &'a str) {
        match self.0 {
            [None, _] => self.0[0] = Some((index, hook)),
            [Some((_, first)), None] if first != hook => self.0[1] = Some((index, hook)),
            _ => {}
        }
    }

    fn by_other_hook(&self, hook: &str) -> Option<usize> {
        let mut edits = self.0.iter().flatten();
        edits.find(|(_, by)| *by != hook).map(|(index, _)| *index)
    }
}

/// Splits a path into its steps. A predicate is a step of its own: `/disk`, `[target/@dev='vda']`.
fn steps(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = path;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest
            .char_indices()
            .skip(1)
            .find(|(_, c)| matches!(c, '/' | '['));
        let (step, after) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
        rest = after;
        Some(step)
    })
}

/// Whether `inner` is `outer` or a path below `outer`.
fn is_within(inner: &str, outer: &str) -> bool {
    inner
        .strip_prefix(outer)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || rest.starts_with('['))
}

/// The name of the last step, without predicates and without `@`.
fn last_step_name(path: &str) -> &str {
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
