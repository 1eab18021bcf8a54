//! Attaching, detaching and updating devices of a simulated domain.

use super::Call;
use super::domain_handle::FakeDomain;
use crate::devices::{Affect, Devices};
use crate::error::Result;

impl Devices for FakeDomain {
    fn attach_device(&self, xml: &str, to: Affect) -> Result<()> {
        self.change(Call::AttachDevice, |domain| domain.attach_device(xml, to))
    }

    fn detach_device(&self, xml: &str, from: Affect) -> Result<()> {
        self.change(Call::DetachDevice, |domain| domain.detach_device(xml, from))
    }

    fn update_device(&self, xml: &str, of: Affect) -> Result<()> {
        self.change(Call::UpdateDevice, |domain| domain.update_device(xml, of))
    }
}
