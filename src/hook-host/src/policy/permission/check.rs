//! Checks one change against the patterns.

use std::collections::BTreeSet;

use domain_xml::matching::{DocumentIndex, ElementAt, PatternReach};
use domain_xml::{Change, ChangeKind, Part, PathPattern, Place};

use super::danger::{self, DangerKind, Reserved};
use super::hint;
use super::refusal::{Reason, Refusal, refusal};

type Checked = Result<(), Box<Refusal>>;

/// The check of one change.
pub(super) struct Check<'p, 's, 'a> {
    patterns: &'p [PathPattern],
    before: &'s mut DocumentIndex<'a>,
    after: &'s mut DocumentIndex<'a>,
    granted: BTreeSet<usize>,
    nearest: Option<usize>,
}

/// An element of one document or of both.
struct Spot<'a> {
    before: Option<ElementAt<'a>>,
    after: Option<ElementAt<'a>>,
    reach: PatternReach,
    depth: usize,
    /// The kind of the dangerous element that contains it.
    inside: Option<DangerKind>,
    /// The element's own danger, if a pattern must name the element.
    explicit: Option<DangerKind>,
    reserved: Option<Reserved>,
    /// The first pattern that an ambiguous predicate stopped on the way from the root.
    ambiguous: Option<usize>,
}

impl<'p, 's, 'a> Check<'p, 's, 'a> {
    pub(super) fn new(
        patterns: &'p [PathPattern],
        before: &'s mut DocumentIndex<'a>,
        after: &'s mut DocumentIndex<'a>,
    ) -> Self {
        Check {
            patterns,
            before,
            after,
            granted: BTreeSet::new(),
            nearest: None,
        }
    }

    /// The indices of the patterns that were needed.
    pub(super) fn granted(self) -> Vec<usize> {
        self.granted.into_iter().collect()
    }

    pub(super) fn run(&mut self, change: &Change, place: &Place) -> Checked {
        let lost = || refusal(change.path.clone(), Reason::NoPlace);
        let mut spots = self.spots(change, place)?;
        let last = spots.pop().ok_or_else(lost)?;
        if let Some(reserved) = spots.iter().chain([&last]).find_map(|spot| spot.reserved) {
            return Err(refusal(change.path.clone(), Reason::Reserved(reserved)));
        }
        self.nearest = self.nearest(&spots);
        let path = || change.path.clone();
        match (&place.part, change.kind) {
            (Part::Attribute(name), _) => self.attribute(&last, name, path),
            (Part::Element, ChangeKind::Inserted | ChangeKind::Removed) => self.subtree(last, path),
            (Part::Element, ChangeKind::Moved) => {
                let parent = spots.pop().ok_or_else(lost)?;
                self.order(&parent, &last, change)
            }
            _ => self.element(&last, path),
        }
    }

    /// The elements from the root to the changed one.
    fn spots(&mut self, change: &Change, place: &Place) -> Result<Vec<Spot<'a>>, Box<Refusal>> {
        let lost = || refusal(change.path.clone(), Reason::NoPlace);
        let (before, after) = (self.before.root(), self.after.root());
        let mut spots = vec![self.enter(None, Some(before), Some(after))];
        for depth in 0..place.before.len().max(place.after.len()) {
            let around = spots.last().ok_or_else(lost)?;
            let (old, new) = (place.before.get(depth), place.after.get(depth));
            let before = below(self.before, around.before.as_ref(), old).ok_or_else(lost)?;
            let after = below(self.after, around.after.as_ref(), new).ok_or_else(lost)?;
            let spot = self.enter(Some(around), before, after);
            spots.push(spot);
        }
        Ok(spots)
    }

    fn enter(
        &mut self,
        around: Option<&Spot<'a>>,
        before: Option<ElementAt<'a>>,
        after: Option<ElementAt<'a>>,
    ) -> Spot<'a> {
        let depth = around.map_or(0, |around| around.depth + 1);
        let inside = around.and_then(|around| around.explicit.or(around.inside));
        let ats = || before.iter().chain(&after);
        let danger = ats().find_map(|at| danger::of_element(at.element, at.parent));
        let explicit = danger.filter(|kind| danger::needs_its_name(*kind, inside));
        let reserved = ats().find_map(|at| danger::reserved(depth, at.element, at.parent));
        let mut ambiguous = around.and_then(|around| around.ambiguous);
        let start = around.is_none().then(|| PatternReach::start(self.patterns));
        let from = start.as_ref().or(around.map(|around| &around.reach));
        let mut reach: Option<PatternReach> = None;
        for (side, at) in [(&mut *self.before, &before), (&mut *self.after, &after)] {
            if let (Some(from), Some(at)) = (from, at) {
                let (next, stopped) = from.enter(self.patterns, side, at, explicit.is_some());
                ambiguous = ambiguous.or(stopped);
                reach = Some(reach.map_or(next.clone(), |other| other.and(&next)));
            }
        }
        Spot {
            reach: reach.unwrap_or_else(|| PatternReach::nowhere(self.patterns)),
            before,
            after,
            depth,
            inside,
            explicit,
            reserved,
            ambiguous,
        }
    }

    /// The pattern that leads furthest below the root.
    fn nearest(&self, around: &[Spot<'a>]) -> Option<usize> {
        let mut inner = around.iter().skip(1).rev();
        inner.find_map(|spot| (0..self.patterns.len()).find(|n| spot.reach.is_alive(*n)))
    }

    fn element(&mut self, spot: &Spot<'a>, path: impl Fn() -> String) -> Checked {
        let permitting = spot.reach.element(self.patterns);
        self.grant(permitting, spot, spot.explicit, path)
    }

    fn attribute(&mut self, spot: &Spot<'a>, name: &str, path: impl Fn() -> String) -> Checked {
        let danger = spot.attribute_danger(name);
        let explicit = danger.is_some();
        let permitting = spot.reach.attribute(self.patterns, name, explicit);
        self.grant(permitting, spot, danger.or(spot.explicit), path)
    }

    fn grant(
        &mut self,
        permitting: Option<usize>,
        spot: &Spot<'a>,
        danger: Option<DangerKind>,
        path: impl Fn() -> String,
    ) -> Checked {
        if let Some(pattern) = permitting {
            self.granted.insert(pattern);
            return Ok(());
        }
        let reason = match (spot.ambiguous, danger.or(spot.inside)) {
            (Some(pattern), _) => Reason::Ambiguous { pattern },
            (None, Some(kind)) => Reason::Dangerous(kind),
            (None, None) => Reason::NoPattern {
                nearest: self.nearest,
            },
        };
        Err(refusal(path(), reason))
    }

    /// A move changes the parent. For a dangerous child a pattern must also name the child, since
    /// libvirt often uses the first of several.
    fn order(&mut self, parent: &Spot<'a>, moved: &Spot<'a>, change: &Change) -> Checked {
        let path = || hint::parent(&change.path).to_owned();
        let around = self.element(parent, path);
        around.map_err(|mut refusal| {
            if matches!(refusal.reason, Reason::NoPattern { .. }) {
                refusal.reason = Reason::Move;
            }
            refusal
        })?;
        match moved.explicit {
            Some(_) => self.element(moved, || change.path.clone()),
            None => Ok(()),
        }
    }

    /// Checks everything that is inserted or removed with an element, depth first.
    fn subtree(&mut self, top: Spot<'a>, path: impl Fn() -> String) -> Checked {
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
            let spot = self.enter(Some(spot), before, after);
            self.member(&spot, || {
                let inner = open.iter().skip(1).map(|(spot, _)| spot).chain([&spot]);
                inner.fold(path(), |path, spot| path + "/" + spot.name())
            })?;
            open.push((spot, 0));
        }
        Ok(())
    }

    /// Checks an inserted or removed element and its attributes.
    fn member(&mut self, spot: &Spot<'a>, path: impl Fn() -> String) -> Checked {
        if let Some(reserved) = spot.reserved {
            return Err(refusal(path(), Reason::Reserved(reserved)));
        }
        self.element(spot, &path)?;
        let Some(at) = spot.at() else {
            return Ok(());
        };
        for name in at.element.attribute_names() {
            self.attribute(spot, name, || format!("{}/@{name}", path()))?;
        }
        Ok(())
    }
}

/// The child in one document: `Some(None)` if the place is not this deep, `None` if it should be.
fn below<'a>(
    side: &mut DocumentIndex<'a>,
    around: Option<&ElementAt<'a>>,
    index: Option<&usize>,
) -> Option<Option<ElementAt<'a>>> {
    match (around, index) {
        (Some(around), Some(index)) => side.child(around, *index).map(Some),
        (_, None) => Some(None),
        (None, Some(_)) => None,
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
        let mut ats = self.before.iter().chain(&self.after);
        ats.find_map(|at| danger::of_attribute(name, at.element, at.parent))
    }
}
