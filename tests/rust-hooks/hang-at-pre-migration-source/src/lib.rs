//! A hook whose `PreMigrationSource` never returns if the migration has a certain bandwidth.

use hooks_sdk::{Description, Hook, HookPoint, Migration, Result, Vmi};

/// The bandwidth at which the hook never returns, in bytes per second.
const ENDLESS_AT_BANDWIDTH: u64 = 1 << 20;

/// The hook.
#[derive(Debug, Default)]
pub struct HangAtPreMigrationSource;

impl Hook for HangAtPreMigrationSource {
    const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::PreMigrationSource];

    fn describe(description: Description) -> Description {
        description.with_no_paths()
    }

    fn pre_migration_source(&self, _: &Vmi, migration: &mut Migration) -> Result {
        while std::hint::black_box(migration.bandwidth()) == Some(ENDLESS_AT_BANDWIDTH) {}
        Ok(())
    }
}

hooks_sdk::export!(HangAtPreMigrationSource);
