//! A hook that does not return before a migration with little bandwidth.

use hooks_sdk::{Description, Hook, HookPoint, Migration, Result, Vmi};

/// Bytes in a second.
const LITTLE: u64 = 1 << 20;

/// The hook.
#[derive(Debug, Default)]
pub struct SlowMigration;

impl Hook for SlowMigration {
    const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::PreMigrationSource];

    fn describe(description: Description) -> Description {
        description.with_paths([])
    }

    fn pre_migration_source(&self, _: &Vmi, migration: &mut Migration) -> Result {
        while std::hint::black_box(migration.bandwidth()) == LITTLE {}
        Ok(())
    }
}

hooks_sdk::export!(SlowMigration);
