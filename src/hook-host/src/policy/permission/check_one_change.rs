//! Checks one change against the patterns.

use std::collections::BTreeSet;

use domain_xml::matching::{DocumentIndex, ElementAt, PatternSet, PatternStates};
use domain_xml::{Budget, Change, ChangeKind, Part, Place};

use super::dangerous_set::{self, DangerKind, NodeLocation};
use super::read_once_elements::is_read_once;
use super::refusal::{Refusal, RefusalReason, refusal};
use super::reserved_nodes::{self, ReservedNode};
use super::suggested_pattern;

type CheckResult = Result<(), Box<Refusal>>;

/// The check of one change.
pub(super) struct Check<'s, 'a> {
    pub(super) set: &'s PatternSet,
    /// Classes of the dangerous set that are granted wherever they are.
    pub(super) kinds: &'s [DangerKind],
    pub(super) before: &'s mut DocumentIndex<'a>,
    pub(super) after: &'s mut DocumentIndex<'a>,
    /// The way to the last change, from the root. Changes come in document order, so that every element is entered
    /// about once, however many changes are below it.
    pub(super) way: Vec<Spot<'a>>,
    pub(super) budget: &'s Budget<'a>,
    pub(super) granted: BTreeSet<usize>,
}

/// An element of one document or of both.
#[derive(Clone)]
pub(super) struct Spot<'a> {
    /// The index in the parent, before and after.
    indices: (Option<usize>, Option<usize>),
    before: Option<ElementAt<'a>>,
    after: Option<ElementAt<'a>>,
    reach: PatternStates,
    depth: usize,
    /// The kind of the dangerous element that contains it.
    inside: Option<DangerKind>,
    /// The element's own danger, if a pattern must name the element.
    explicit: Option<DangerKind>,
    reserved: Option<ReservedNode>,
    /// The first pattern that an ambiguous predicate stopped on the way from the root.
    ambiguous: Option<usize>,
}

impl<'a> Check<'_, 'a> {
    pub(super) fn run(&mut self, change: &Change, place: &Place) -> CheckResult {
        let mut way = std::mem::take(&mut self.way);
        let walked = self.walk(&mut way, change, place);
        let checked = walked.and_then(|()| self.last_of(&way, change, place));
        self.way = way;
        match self.budget.exhausted() {
            Some(_) => Err(refusal(
                change.path.clone(),
                RefusalReason::CheckBudgetExhausted,
            )),
            None => checked,
        }
    }

    /// Checks the change, to whose element `way` leads.
    fn last_of(&mut self, way: &[Spot<'a>], change: &Change, place: &Place) -> CheckResult {
        let lost = || refusal(change.path.clone(), RefusalReason::NotInDiff);
        let (last, around) = way.split_last().ok_or_else(lost)?;
        if let Some(reserved) = way.iter().find_map(|spot| spot.reserved) {
            return Err(refusal(
                change.path.clone(),
                RefusalReason::Reserved(reserved),
            ));
        }
        let path = || change.path.clone();
        let mut checked = match (&place.part, change.kind) {
            (Part::Attribute(name), _) => self.attribute(last, name, path),
            (Part::Element, ChangeKind::Inserted | ChangeKind::Removed) => {
                self.subtree(last.clone(), path)
            }
            (Part::Element, ChangeKind::Moved) => {
                self.order(around.last().ok_or_else(lost)?, last, change)
            }
            _ => self.element(last, path),
        };
        if checked.is_ok()
            && place.part == Part::Element
            && change.kind != ChangeKind::Edited
            && let Some(parent) = around.last()
        {
            checked = self.twins(parent, last, &path);
        }
        if let Err(refusal) = &mut checked
            && let RefusalReason::NoPattern { nearest } = &mut refusal.reason
        {
            // The pattern that leads furthest below the root.
            let mut inner = around.iter().skip(1).rev();
            *nearest = inner.find_map(|spot| spot.reach.first_alive(self.set));
        }
        checked
    }

    /// Makes `way` lead from the root to the changed element.
    fn walk(&mut self, way: &mut Vec<Spot<'a>>, change: &Change, place: &Place) -> CheckResult {
        let lost = || refusal(change.path.clone(), RefusalReason::NotInDiff);
        let depth = place.before.len().max(place.after.len());
        let indices = |depth: usize| {
            let index = |side: &Vec<usize>| side.get(depth).copied();
            (index(&place.before), index(&place.after))
        };
        if way.is_empty() {
            let (before, after) = (self.before.root(), self.after.root());
            let root = self.enter(None, (None, None), Some(before), Some(after));
            way.push(root);
        }
        let known = way.iter().skip(1).zip((0..depth).map(indices));
        let shared = known
            .take_while(|(spot, indices)| spot.indices == *indices)
            .count();
        way.truncate(shared + 1);
        for depth in shared..depth {
            let around = way.last().ok_or_else(lost)?;
            let (old, new) = indices(depth);
            let before = below(self.before, around.before.as_ref(), old).ok_or_else(lost)?;
            let after = below(self.after, around.after.as_ref(), new).ok_or_else(lost)?;
            let spot = self.enter(Some(around), (old, new), before, after);
            way.push(spot);
        }
        Ok(())
    }

    fn enter(
        &mut self,
        around: Option<&Spot<'a>>,
        indices: (Option<usize>, Option<usize>),
        before: Option<ElementAt<'a>>,
        after: Option<ElementAt<'a>>,
    ) -> Spot<'a> {
        let depth = around.map_or(0, |around| around.depth + 1);
        let inside = around.and_then(|around| around.explicit.or(around.inside));
        let stays = around.is_some_and(|around| around.after.is_some());
        let gone = match after.is_none() && stays {
            true => NodeLocation::Removed,
            false => NodeLocation::Before,
        };
        let ats = || before.iter().chain(&after);
        let danger = |at: &Option<ElementAt<'_>>, location| {
            let at = at.as_ref()?;
            dangerous_set::of_element(at.element, at.parent, location)
        };
        let danger = danger(&before, gone).or_else(|| danger(&after, now(&before)));
        let explicit = danger.filter(|kind| dangerous_set::must_be_named(*kind, inside));
        if depth == 2 {
            for (side, at) in [(&*self.before, &before), (&*self.after, &after)] {
                let metadata = at.as_ref().and_then(|at| at.parent);
                if let (Some(at), Some(metadata)) = (at, metadata)
                    && dangerous_set::local(metadata.name()) == "metadata"
                {
                    let root = side.root().element;
                    let bytes = reserved_nodes::namespace_bytes(root, metadata, at.element);
                    self.budget.spend_text(bytes);
                }
            }
        }
        let reserved = ats().find_map(|at| reserved_nodes::reserved(depth, at.element, at.parent));
        let mut ambiguous = around.and_then(|around| around.ambiguous);
        let start = around.is_none().then(|| PatternStates::start(self.set));
        let from = start.as_ref().or(around.map(|around| &around.reach));
        let mut reach: Option<PatternStates> = None;
        for (side, at) in [(&mut *self.before, &before), (&mut *self.after, &after)] {
            if let (Some(from), Some(at)) = (from, at) {
                let explicit = explicit.is_some();
                let (next, stopped) = from.enter(self.set, side, at, explicit, self.budget);
                ambiguous = ambiguous.or(stopped);
                reach = Some(match reach {
                    Some(other) => other.and(&next),
                    None => next,
                });
            }
        }
        Spot {
            indices,
            reach: reach.unwrap_or_default(),
            before,
            after,
            depth,
            inside,
            explicit,
            reserved,
            ambiguous,
        }
    }

    fn element(&mut self, spot: &Spot<'a>, path: impl Fn() -> String) -> CheckResult {
        let permitting = spot.reach.element(self.set);
        self.grant(permitting, spot, spot.explicit, path)
    }

    fn attribute(&mut self, spot: &Spot<'a>, name: &str, path: impl Fn() -> String) -> CheckResult {
        // Whether it is dangerous depends on its value, which is searched in the start tag.
        for at in [&spot.before, &spot.after].into_iter().flatten() {
            self.budget.spend_text(at.element.tag_bytes());
        }
        if !self.budget.spend(1) {
            return Err(refusal(path(), RefusalReason::CheckBudgetExhausted));
        }
        let danger = spot.attribute_danger(name);
        let explicit = danger.is_some();
        let permitting = spot.reach.attribute(self.set, name, explicit);
        self.grant(permitting, spot, danger.or(spot.explicit), path)
    }

    fn grant(
        &mut self,
        permitting: Option<usize>,
        spot: &Spot<'a>,
        danger: Option<DangerKind>,
        path: impl Fn() -> String,
    ) -> CheckResult {
        if let Some(pattern) = permitting {
            self.granted.insert(pattern);
            return Ok(());
        }
        let kind = danger.or(spot.inside);
        if kind.is_some_and(|kind| self.kinds.contains(&kind)) {
            return Ok(());
        }
        let reason = match (spot.ambiguous, danger.or(spot.inside)) {
            (Some(pattern), _) => RefusalReason::Ambiguous { pattern },
            (None, Some(kind)) => RefusalReason::Dangerous(kind),
            (None, None) => RefusalReason::NoPattern { nearest: None },
        };
        Err(refusal(path(), reason))
    }

    /// A move changes the parent. For a dangerous child a pattern must also name the child, since
    /// libvirt often uses the first of several.
    fn order(&mut self, parent: &Spot<'a>, moved: &Spot<'a>, change: &Change) -> CheckResult {
        let path = || suggested_pattern::parent(&change.path).to_owned();
        let around = self.element(parent, path);
        around.map_err(|mut refusal| {
            if matches!(refusal.reason, RefusalReason::NoPattern { .. }) {
                refusal.reason = RefusalReason::ReorderedChildren;
            }
            refusal
        })?;
        match moved.explicit {
            Some(_) => self.element(moved, || change.path.clone()),
            None => Ok(()),
        }
    }

    /// Of several elements that libvirt reads once, another one may count now. So all of them are changed.
    fn twins(
        &mut self,
        parent: &Spot<'a>,
        changed: &Spot<'a>,
        path: &impl Fn() -> String,
    ) -> CheckResult {
        let name = dangerous_set::local(changed.name());
        if !is_read_once(dangerous_set::local(parent.name()), name) {
            return Ok(());
        }
        let is_twin = |at: &ElementAt<'a>| {
            let own = [&changed.before, &changed.after].into_iter().flatten();
            dangerous_set::local(at.element.name()) == name
                && !own
                    .into_iter()
                    .any(|own| std::ptr::eq(own.element, at.element))
        };
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for (side, parent, twins) in [
            (&mut *self.before, &parent.before, &mut before),
            (&mut *self.after, &parent.after, &mut after),
        ] {
            let Some(parent) = parent else { continue };
            let children = (0..).map_while(|index| side.child(parent, index));
            let budget = self.budget;
            let children = children.take_while(|_| budget.spend(1));
            twins.extend(children.filter(is_twin));
        }
        for at in before {
            let twin = self.enter(Some(parent), (None, None), Some(at), None);
            self.subtree(twin, path)?;
        }
        for at in after {
            let twin = self.enter(Some(parent), (None, None), None, Some(at));
            self.subtree(twin, path)?;
        }
        Ok(())
    }

    /// Checks everything that is inserted or removed with an element, depth first.
    fn subtree(&mut self, top: Spot<'a>, path: impl Fn() -> String) -> CheckResult {
        self.member(&top, &path)?;
        let mut open = vec![(top, 0)];
        while let Some((spot, next)) = open.last_mut() {
            let index = *next;
            *next += 1;
            let before = spot.before.as_ref();
            let before = before.and_then(|at| self.before.child(at, index));
            let after = spot.after.as_ref();
            let after = after.and_then(|at| self.after.child(at, index));
            if before.is_none() && after.is_none() {
                open.pop();
                continue;
            }
            if !self.budget.spend(1) {
                return Err(refusal(path(), RefusalReason::CheckBudgetExhausted));
            }
            let spot = self.enter(Some(spot), (None, None), before, after);
            self.member(&spot, || {
                let inner = open.iter().skip(1).map(|(spot, _)| spot).chain([&spot]);
                inner.fold(path(), |path, spot| path + "/" + spot.name())
            })?;
            open.push((spot, 0));
        }
        Ok(())
    }

    /// Checks an inserted or removed element and its attributes.
    fn member(&mut self, spot: &Spot<'a>, path: impl Fn() -> String) -> CheckResult {
        if let Some(reserved) = spot.reserved {
            return Err(refusal(path(), RefusalReason::Reserved(reserved)));
        }
        self.element(spot, &path)?;
        let Some(at) = spot.at() else {
            return Ok(());
        };
        let is_new = spot.before.is_none();
        let defaults = dangerous_set::dangerous_defaults(at.element).filter(|_| is_new);
        for name in at.element.attribute_names().chain(defaults) {
            self.attribute(spot, name, || format!("{}/@{name}", path()))?;
        }
        Ok(())
    }
}

/// The child in one document: `Some(None)` if the place is not this deep, `None` if it should be.
fn below<'a>(
    side: &mut DocumentIndex<'a>,
    around: Option<&ElementAt<'a>>,
    index: Option<usize>,
) -> Option<Option<ElementAt<'a>>> {
    match (around, index) {
        (Some(around), Some(index)) => side.child(around, index).map(Some),
        (_, None) => Some(None),
        (None, Some(_)) => None,
    }
}

/// How an element is in the document after, given the one before.
fn now(before: &Option<ElementAt<'_>>) -> NodeLocation {
    match before {
        Some(_) => NodeLocation::Edited,
        None => NodeLocation::After,
    }
}

impl<'a> Spot<'a> {
    fn at(&self) -> Option<&ElementAt<'a>> {
        self.after.as_ref().or(self.before.as_ref())
    }

    fn name(&self) -> &'a str {
        self.at().map_or("", |at| at.element.canonical_name())
    }

    /// The danger of an attribute, if a pattern must name the attribute.
    fn attribute_danger(&self, name: &str) -> Option<DangerKind> {
        if self.explicit.or(self.inside).is_some() {
            return None;
        }
        let danger = |at: &Option<ElementAt<'_>>, location| {
            let at = at.as_ref()?;
            dangerous_set::of_attribute(name, at.element, at.parent, location)
        };
        danger(&self.before, NodeLocation::Before)
            .or_else(|| danger(&self.after, now(&self.before)))
    }
}
