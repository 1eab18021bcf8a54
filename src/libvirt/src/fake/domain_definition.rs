//! A simulated domain's XML, and the removal of its definition.

use super::Call;
use super::domain_handle::FakeDomain;
use super::errors::domain_not_found;
use super::simulated_domain::SimulatedDomain;
use crate::domain_definition::{Definition, UndefineOptions, XmlKind};
use crate::error::Result;

impl Definition for FakeDomain {
    fn xml(&self, kind: XmlKind) -> Result<String> {
        self.with_domain(Call::Xml, |domain| {
            let text = match (kind, &domain.active, &domain.inactive) {
                (XmlKind::Active, Some(active), _) => {
                    active.render_active(domain.id, domain.agent.is_some())
                }
                (XmlKind::Migratable, Some(definition), _)
                | (_, _, Some(definition))
                | (_, Some(definition), None) => definition.render(),
                (_, None, None) => return Err(domain_not_found(&domain.name)),
            };
            Ok(text)
        })
    }

    fn undefine(&self, _options: UndefineOptions) -> Result<()> {
        self.change(Call::Undefine, SimulatedDomain::undefine)
    }
}
