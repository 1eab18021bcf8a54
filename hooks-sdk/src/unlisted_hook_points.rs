//! Finds hook points that a hook implements and does not list: they would never be called.

use std::panic::{self, AssertUnwindSafe};

use crate::host::native;
use crate::{CloudInit, Device, Domain, Hook, HookPoint, Migration, Vmi};

/// Panics if the hook implements a hook point that is not in its `HOOK_POINTS`. The test that `export!` makes.
pub(crate) fn assert_none<H: Hook>() {
    let unlisted = unlisted::<H>();
    let names: Vec<&str> = unlisted.iter().map(|point| point.name()).collect();
    assert!(
        names.is_empty(),
        "the hook implements {0} and is not called there: add {0} to its HOOK_POINTS",
        names.join(" and ")
    );
}

/// The trait cannot tell whether a method is the provided one, so each that is not listed is called with empty inputs:
/// the provided ones leave a note.
fn unlisted<H: Hook>() -> Vec<HookPoint> {
    let points = HookPoint::ALL.iter().copied();
    let mut unlisted = Vec::new();
    for point in points.filter(|point| !H::HOOK_POINTS.contains(point)) {
        native::take_provided_method();
        // A method that needs more than empty inputs is the hook's own.
        let _ = panic::catch_unwind(AssertUnwindSafe(|| call::<H>(point)));
        if !native::take_provided_method() {
            unlisted.push(point);
        }
    }
    native::reset();
    unlisted
}

fn call<H: Hook>(point: HookPoint) -> crate::Result {
    let (hook, vmi) = (H::default(), Vmi::new("{}".to_owned()));
    match point {
        HookPoint::PreStart => hook.pre_start(&vmi),
        HookPoint::PreCloudInitIso => {
            let mut cloud_init = CloudInit::new("noCloud".to_owned(), Vec::new());
            hook.pre_cloud_init_iso(&vmi, &mut cloud_init)
        }
        HookPoint::OnDefineDomain => hook.on_define_domain(&vmi, &mut Domain::parse("<domain/>")?),
        HookPoint::OnAttachDevice => hook.on_attach_device(&vmi, &mut Device::parse("<disk/>")?),
        HookPoint::PreMigrationSource => {
            hook.pre_migration_source(&vmi, &mut Migration::new(Vec::new()))
        }
        HookPoint::Shutdown => hook.shutdown(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Result, veto};

    #[derive(Default)]
    struct Forgets;

    impl Hook for Forgets {
        const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::OnDefineDomain];

        fn pre_start(&self, _: &Vmi) -> Result {
            Err(veto("no"))
        }

        fn on_define_domain(&self, _: &Vmi, _: &mut Domain) -> Result {
            Ok(())
        }

        fn shutdown(&self) -> Result {
            panic!("it needs a VM")
        }
    }

    #[derive(Default)]
    struct Lists;

    impl Hook for Lists {
        const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::PreStart, HookPoint::Shutdown];

        fn pre_start(&self, _: &Vmi) -> Result {
            Err(veto("no"))
        }
    }

    #[test]
    fn implemented_hook_points_that_are_not_listed_are_found() {
        assert_eq!(
            unlisted::<Forgets>(),
            [HookPoint::PreStart, HookPoint::Shutdown]
        );
        assert_none::<Lists>();
    }

    #[test]
    #[should_panic(expected = "add PreStart and Shutdown to its HOOK_POINTS")]
    fn the_exported_test_fails_with_their_names() {
        assert_none::<Forgets>();
    }
}
