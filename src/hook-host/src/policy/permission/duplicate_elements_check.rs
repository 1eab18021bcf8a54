//! Checks the duplicates of a new or removed element of which libvirt reads only one.

use domain_xml::host::ElementAt;

use super::change_check::{ChangeCheck, CheckResult};
use super::dangerous_set;
use super::element_match_state::{ElementMatchState, NO_INDICES};
use super::read_once_elements::is_read_once;

impl<'a> ChangeCheck<'_, 'a> {
    /// Checks the duplicates of a new or removed element. Of several elements of the same name libvirt may read only
    /// one, and this one may be another after the change, so all of them count as changed.
    pub(super) fn check_duplicates(
        &mut self,
        parent: &ElementMatchState<'a>,
        changed: &ElementMatchState<'a>,
        path: &impl Fn() -> String,
    ) -> CheckResult {
        let name = dangerous_set::local(changed.name());
        if !is_read_once(dangerous_set::local(parent.name()), name) {
            return Ok(());
        }
        let is_duplicate = |at: &ElementAt<'a>| {
            let changed_elements = [&changed.before, &changed.after].into_iter().flatten();
            dangerous_set::local(at.element.tag_name()) == name
                && !changed_elements
                    .into_iter()
                    .any(|changed| std::ptr::eq(changed.element, at.element))
        };
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for (side, parent, duplicates) in [
            (&mut *self.before, &parent.before, &mut before),
            (&mut *self.after, &parent.after, &mut after),
        ] {
            let Some(parent) = parent else { continue };
            let children = (0..).map_while(|index| side.child(parent, index));
            let budget = self.budget;
            let children = children.take_while(|_| budget.spend(1));
            duplicates.extend(children.filter(is_duplicate));
        }
        for at in before {
            let duplicate = self.enter_element(Some(parent), NO_INDICES, Some(at), None);
            self.check_subtree(duplicate, path)?;
        }
        for at in after {
            let duplicate = self.enter_element(Some(parent), NO_INDICES, None, Some(at));
            self.check_subtree(duplicate, path)?;
        }
        Ok(())
    }
}
