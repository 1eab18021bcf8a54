//! Matches the patterns with the elements from the root to a changed element.

use domain_xml::host::{Change, Place};
use domain_xml::host::{DocumentIndex, ElementAt, PatternStates};

use super::change_check::{ChangeCheck, CheckResult};
use super::dangerous_set::{self, DangerKind, NodeLocation};
use super::element_match_state::{ElementMatchState, NO_INDICES, location_after};
use super::refusal::{RefusalReason, refusal};
use super::reserved_nodes;

impl<'a> ChangeCheck<'_, 'a> {
    /// Changes `ancestry` to the elements from the root to the changed element. The elements that it shares with the
    /// last change are kept.
    pub(super) fn enter_ancestry(
        &mut self,
        ancestry: &mut Vec<ElementMatchState<'a>>,
        change: &Change,
        place: &Place,
    ) -> CheckResult {
        let not_in_diff = || refusal(change.path.clone(), RefusalReason::NotInDiff);
        let depth = place.before.len().max(place.after.len());
        let indices = |depth: usize| {
            let index = |indices: &Vec<usize>| indices.get(depth).copied();
            (index(&place.before), index(&place.after))
        };
        if ancestry.is_empty() {
            let (before, after) = (self.before.root(), self.after.root());
            let root = self.enter_element(None, NO_INDICES, Some(before), Some(after));
            ancestry.push(root);
        }
        let known = ancestry.iter().skip(1).zip((0..depth).map(indices));
        let shared = known
            .take_while(|(element, indices)| element.indices == *indices)
            .count();
        ancestry.truncate(shared + 1);
        for depth in shared..depth {
            let parent = ancestry.last().ok_or_else(not_in_diff)?;
            let (old, new) = indices(depth);
            let before = child(self.before, parent.before.as_ref(), old).ok_or_else(not_in_diff)?;
            let after = child(self.after, parent.after.as_ref(), new).ok_or_else(not_in_diff)?;
            let element = self.enter_element(Some(parent), (old, new), before, after);
            ancestry.push(element);
        }
        Ok(())
    }

    fn boots_from_network_earlier(&self) -> bool {
        let (before, after) = (self.before.root().element, self.after.root().element);
        *self
            .boots_from_network_earlier
            .get_or_init(|| dangerous_set::boots_from_network_earlier(before, after, self.budget))
    }

    /// The state of an element, from the state of its parent. `parent` is `None` for the root.
    pub(super) fn enter_element(
        &mut self,
        parent: Option<&ElementMatchState<'a>>,
        indices: (Option<usize>, Option<usize>),
        before: Option<ElementAt<'a>>,
        after: Option<ElementAt<'a>>,
    ) -> ElementMatchState<'a> {
        let depth = parent.map_or(0, |parent| parent.depth + 1);
        let enclosing_danger =
            parent.and_then(|parent| parent.own_danger.or(parent.enclosing_danger));
        let parent_stays = parent.is_some_and(|parent| parent.after.is_some());
        let location_before = match after.is_none() && parent_stays {
            true => NodeLocation::Removed,
            false => NodeLocation::Before,
        };
        let elements = || before.iter().chain(&after);
        let danger = |at: &Option<ElementAt<'_>>, location| {
            let at = at.as_ref()?;
            dangerous_set::of_element(at.element, at.parent, location)
        };
        let danger =
            danger(&before, location_before).or_else(|| danger(&after, location_after(&before)));
        let danger = danger.or_else(|| {
            let is_boot =
                elements().any(|at| dangerous_set::is_boot_of_disk_or_os(at.element, at.parent));
            (is_boot && self.boots_from_network_earlier()).then_some(DangerKind::Boot)
        });
        let own_danger =
            danger.filter(|kind| dangerous_set::must_be_named(*kind, enclosing_danger));
        if depth == 2 {
            for (side, at) in [(&*self.before, &before), (&*self.after, &after)] {
                let metadata = at.as_ref().and_then(|at| at.parent);
                if let (Some(at), Some(metadata)) = (at, metadata)
                    && dangerous_set::local(metadata.tag_name()) == "metadata"
                {
                    let root = side.root().element;
                    let bytes = reserved_nodes::namespace_bytes(root, metadata, at.element);
                    self.budget.spend_text(bytes);
                }
            }
        }
        let reserved =
            elements().find_map(|at| reserved_nodes::reserved(depth, at.element, at.parent));
        let new_defaults = match (&before, &after) {
            (Some(before), Some(after)) => {
                dangerous_set::new_dangerous_defaults(before.element, after.element, self.budget)
            }
            _ => Vec::new(),
        };
        let mut ambiguous_pattern = parent.and_then(|parent| parent.ambiguous_pattern);
        let start = parent.is_none().then(|| PatternStates::start(self.set));
        let from = start
            .as_ref()
            .or(parent.map(|parent| &parent.pattern_states));
        let mut pattern_states: Option<PatternStates> = None;
        for (side, at) in [(&mut *self.before, &before), (&mut *self.after, &after)] {
            if let (Some(from), Some(at)) = (from, at) {
                let must_be_named = own_danger.is_some();
                let (next, stopped) = from.enter(self.set, side, at, must_be_named, self.budget);
                ambiguous_pattern = ambiguous_pattern.or(stopped);
                pattern_states = Some(match pattern_states {
                    Some(other) => other.and(&next),
                    None => next,
                });
            }
        }
        ElementMatchState {
            indices,
            pattern_states: pattern_states.unwrap_or_default(),
            before,
            after,
            depth,
            enclosing_danger,
            own_danger,
            reserved,
            new_defaults,
            ambiguous_pattern,
        }
    }
}

/// The child in one document; `Some(None)` if the changed place has no element at this depth of the document, `None` if
/// the document does not have the child.
fn child<'a>(
    side: &mut DocumentIndex<'a>,
    parent: Option<&ElementAt<'a>>,
    index: Option<usize>,
) -> Option<Option<ElementAt<'a>>> {
    match (parent, index) {
        (Some(parent), Some(index)) => side.child(parent, index).map(Some),
        (_, None) => Some(None),
        (None, Some(_)) => None,
    }
}
