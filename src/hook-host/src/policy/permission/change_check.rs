//! Checks one change of the domain against the patterns.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeSet;

use domain_xml::host::{
    Budget, Change, ChangeKind, DocumentIndex, ElementAt, Part, PatternSet, PatternStates, Place,
    tag_bytes,
};

use super::super::permission;
use super::dangerous_set::{DangerKind, NodeLocation};
use super::{
    ElementMatchState, NO_INDICES, Refusal, RefusalReason, dangerous_set, is_container,
    location_after, refusal, suggested_pattern,
};
use crate::ConditionedPath;

pub(super) type CheckResult = Result<(), Box<Refusal>>;

/// Why a node without a value meets no condition.
const NO_VALUE: &str =
    "it has no text or value of its own after the change, and what is removed meets no condition";

/// What the patterns that select a node say about it.
#[derive(Debug, PartialEq, Eq)]
enum Selecting {
    /// This one permits it.
    Permits(usize),
    /// All have conditions that it does not meet; the first of them.
    OnCondition { pattern: usize, reason: String },
    /// There are none.
    None,
}

/// The check of one change against the patterns.
pub(super) struct ChangeCheck<'s, 'a> {
    pub(super) set: &'s PatternSet,
    /// The patterns of the set with their conditions. A pattern of the set behind them has no condition.
    pub(super) paths: &'s [ConditionedPath],
    /// The kinds of the dangerous set that are granted as a whole.
    pub(super) granted_dangers: &'s [DangerKind],
    pub(super) before: &'s mut DocumentIndex<'a>,
    pub(super) after: &'s mut DocumentIndex<'a>,
    /// The elements from the root to the last changed element. Changes are in document order, so that every element is
    /// entered about once, however many changes are below the element.
    pub(super) ancestry: Vec<ElementMatchState<'a>>,
    pub(super) budget: &'s Budget<'a>,
    /// Whether the changes put a boot from the network before the boot from a disk; not known before it is needed.
    pub(super) boots_from_network_earlier: &'s OnceCell<bool>,
    /// Indices of the patterns that permitted a node so far.
    pub(super) used_patterns: BTreeSet<usize>,
}

impl<'a> ChangeCheck<'_, 'a> {
    pub(super) fn run(&mut self, change: &Change, place: &Place) -> CheckResult {
        let mut ancestry = std::mem::take(&mut self.ancestry);
        let entered = self.enter_ancestry(&mut ancestry, change, place);
        let checked = entered.and_then(|()| self.check_last(&ancestry, change, place));
        self.ancestry = ancestry;
        match self.budget.exhausted() {
            Some(_) => Err(refusal(
                change.path.clone(),
                RefusalReason::CheckBudgetExhausted,
            )),
            None => checked,
        }
    }

    /// Checks the change of the last element of `ancestry`.
    fn check_last(
        &mut self,
        ancestry: &[ElementMatchState<'a>],
        change: &Change,
        place: &Place,
    ) -> CheckResult {
        let not_in_diff = || refusal(change.path.clone(), RefusalReason::NotInDiff);
        let (last, ancestors) = ancestry.split_last().ok_or_else(not_in_diff)?;
        if let Some(reserved) = ancestry.iter().find_map(|element| element.reserved) {
            return Err(refusal(
                change.path.clone(),
                RefusalReason::Reserved(reserved),
            ));
        }
        let path = || change.path.clone();
        let mut checked = match (&place.part, change.kind) {
            (Part::Attribute(name), _) => self.check_attribute(last, name, path),
            (Part::Element, ChangeKind::Inserted | ChangeKind::Removed) => {
                self.check_subtree(last.clone(), path)
            }
            (Part::Element, ChangeKind::Moved) => {
                self.check_move(ancestors.last().ok_or_else(not_in_diff)?, last, change)
            }
            _ => self.check_element(last, path),
        };
        if checked.is_ok()
            && place.part == Part::Element
            && change.kind != ChangeKind::Edited
            && let Some(parent) = ancestors.last()
        {
            checked = self.check_duplicates(parent, last, &path);
        }
        if checked.is_ok() {
            checked = self.check_new_defaults(ancestry, change, place);
        }
        if let Err(refusal) = &mut checked
            && let RefusalReason::NoPattern { nearest } = &mut refusal.reason
        {
            // The pattern that matches the deepest ancestor. The root is left out: every pattern matches it.
            let mut deepest_first = ancestors.iter().skip(1).rev();
            *nearest =
                deepest_first.find_map(|element| element.pattern_states.first_alive(self.set));
        }
        checked
    }

    /// Checks the attributes for which libvirt takes a dangerous default because of the change.
    fn check_new_defaults(
        &mut self,
        ancestry: &[ElementMatchState<'a>],
        change: &Change,
        place: &Place,
    ) -> CheckResult {
        let paths = suggested_pattern::ancestry(change, place);
        for (element, path) in ancestry.iter().rev().zip(paths) {
            for name in &element.new_defaults {
                self.check_attribute(element, name, || format!("{path}/@{name}"))?;
            }
        }
        Ok(())
    }

    fn check_element(
        &mut self,
        element: &ElementMatchState<'a>,
        path: impl Fn() -> String,
    ) -> CheckResult {
        let selecting = element.pattern_states.patterns_permitting_element(self.set);
        let mut permitting = self.first_on_condition(selecting, element, || {
            let element = element.after.as_ref()?.element;
            // libvirt joins the texts of all elements inside.
            match element.children().next() {
                Some(_) => None,
                None => Some(element.text().into()),
            }
        });
        if permitting == Selecting::None
            && element.before.is_none()
            && let Some(at) = &element.after
            && element.own_danger.is_none()
            && is_container(at.element, at.parent)
            && let Some(pattern) = element.pattern_states.first_leading_inside(self.set)
        {
            permitting = Selecting::Permits(pattern);
        }
        self.grant(permitting, element, element.own_danger, path)
    }

    /// The first of the patterns that select a node whose condition the node's value meets. `value` is that in the
    /// document after, if the node has one there.
    fn first_on_condition<'v>(
        &self,
        selecting: impl Iterator<Item = usize>,
        element: &ElementMatchState<'a>,
        value: impl Fn() -> Option<Cow<'v, str>>,
    ) -> Selecting {
        let mut refused = Selecting::None;
        for pattern in selecting {
            let path = self.paths.get(pattern);
            let Some(condition) = path.and_then(|path| path.condition.as_ref()) else {
                return Selecting::Permits(pattern);
            };
            // Reading the value, and matching it, is linear in the element's text.
            let tag = element.after.as_ref().map_or(0, |at| tag_bytes(at.element));
            if !self.budget.spend_text(tag) || !self.budget.spend(1) {
                return Selecting::None;
            }
            let value = value();
            let length = value.as_ref().map_or(0, |value| value.len());
            if !self.budget.spend_text(length) {
                return Selecting::None;
            }
            let unmet = match &value {
                Some(value) => condition.unmet(value),
                None => Some(NO_VALUE.to_owned()),
            };
            match unmet {
                None => return Selecting::Permits(pattern),
                Some(reason) if refused == Selecting::None => {
                    refused = Selecting::OnCondition { pattern, reason };
                }
                Some(_) => {}
            }
        }
        refused
    }

    fn check_attribute(
        &mut self,
        element: &ElementMatchState<'a>,
        name: &str,
        path: impl Fn() -> String,
    ) -> CheckResult {
        // Reading the value scans both start tags, so their bytes are charged first. A budget that is empty then is
        // reported by `spend(1)`.
        for at in [&element.before, &element.after].into_iter().flatten() {
            self.budget.spend_text(tag_bytes(at.element));
        }
        if !self.budget.spend(1) {
            return Err(refusal(path(), RefusalReason::CheckBudgetExhausted));
        }
        let danger = element.attribute_danger(name);
        let must_be_named = danger.is_some();
        let states = &element.pattern_states;
        let selecting = states.patterns_permitting_attribute(self.set, name, must_be_named);
        let permitting = self.first_on_condition(selecting, element, || {
            element.after.as_ref()?.element.attr(name)
        });
        self.grant(permitting, element, danger.or(element.own_danger), path)
    }

    /// Grants the node if a pattern permits it, or its kind is granted; `path` is the node's.
    fn grant(
        &mut self,
        permitting: Selecting,
        element: &ElementMatchState<'a>,
        danger: Option<DangerKind>,
        path: impl Fn() -> String,
    ) -> CheckResult {
        if let Selecting::Permits(pattern) = permitting {
            self.used_patterns.insert(pattern);
            return Ok(());
        }
        let kind = danger.or(element.enclosing_danger);
        if kind.is_some_and(|kind| self.granted_dangers.contains(&kind)) {
            return Ok(());
        }
        if let Selecting::OnCondition { pattern, reason } = permitting {
            let reason = RefusalReason::ConditionNotMet { pattern, reason };
            return Err(refusal(path(), reason));
        }
        let reason = match (element.ambiguous_pattern, kind) {
            (Some(pattern), _) => RefusalReason::Ambiguous { pattern },
            (None, Some(kind)) => RefusalReason::Dangerous(kind),
            (None, None) => RefusalReason::NoPattern { nearest: None },
        };
        Err(refusal(path(), reason))
    }

    /// Checks a move, which changes the parent. A dangerous child needs a pattern too, because libvirt often uses the
    /// first of several children.
    fn check_move(
        &mut self,
        parent: &ElementMatchState<'a>,
        moved: &ElementMatchState<'a>,
        change: &Change,
    ) -> CheckResult {
        let path = || suggested_pattern::parent(&change.path).to_owned();
        let checked = self.check_element(parent, path);
        checked.map_err(|mut refusal| {
            if matches!(refusal.reason, RefusalReason::NoPattern { .. }) {
                refusal.reason = RefusalReason::ReorderedChildren;
            }
            refusal
        })?;
        match moved.own_danger {
            Some(_) => self.check_element(moved, || change.path.clone()),
            None => Ok(()),
        }
    }

    /// Checks everything that is inserted or removed with an element, depth first. If something in it that the host acts
    /// on is refused too, that is reported, and not what the guest alone acts on: it gives away more.
    pub(super) fn check_subtree(
        &mut self,
        top: ElementMatchState<'a>,
        path: impl Fn() -> String,
    ) -> CheckResult {
        let mut refused = None;
        self.check_element_and_attributes(&top, &mut refused, &path)?;
        let mut open = vec![(top, 0)];
        while let Some((element, next)) = open.last_mut() {
            let index = *next;
            *next += 1;
            let before = element.before.as_ref();
            let before = before.and_then(|at| self.before.child(at, index));
            let after = element.after.as_ref();
            let after = after.and_then(|at| self.after.child(at, index));
            if before.is_none() && after.is_none() {
                open.pop();
                continue;
            }
            if !self.budget.spend(1) {
                return Err(refusal(path(), RefusalReason::CheckBudgetExhausted));
            }
            let child = self.enter_element(Some(element), NO_INDICES, before, after);
            self.check_element_and_attributes(&child, &mut refused, || {
                // `path()` is the path of the first element already.
                let below_top = open.iter().skip(1).map(|(element, _)| element);
                let below_top = below_top.chain([&child]);
                below_top.fold(path(), |path, element| path + "/" + element.name())
            })?;
            open.push((child, 0));
        }
        refused.map_or(Ok(()), Err)
    }

    /// Checks an inserted or removed element and its attributes. The first refusal of what the guest alone acts on is
    /// kept in `refused_for_guest`; every other is returned.
    fn check_element_and_attributes(
        &mut self,
        element: &ElementMatchState<'a>,
        refused_for_guest: &mut Option<Box<Refusal>>,
        path: impl Fn() -> String,
    ) -> CheckResult {
        let mut keep = |checked: CheckResult| match checked {
            Err(refusal) if refusal.acts_on_guest_alone() => {
                refused_for_guest.get_or_insert(refusal);
                Ok(())
            }
            other => other,
        };
        if let Some(reserved) = element.reserved {
            return Err(refusal(path(), RefusalReason::Reserved(reserved)));
        }
        keep(self.check_element(element, &path))?;
        let Some(at) = element.at() else {
            return Ok(());
        };
        let is_new = element.before.is_none();
        let defaults = dangerous_set::dangerous_defaults(at.element).filter(|_| is_new);
        for name in at.element.attribute_names().chain(defaults) {
            keep(self.check_attribute(element, name, || format!("{}/@{name}", path())))?;
        }
        Ok(())
    }

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
                    let bytes = permission::namespace_bytes(root, metadata, at.element);
                    self.budget.spend_text(bytes);
                }
            }
        }
        let reserved = elements().find_map(|at| permission::reserved(depth, at.element, at.parent));
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
