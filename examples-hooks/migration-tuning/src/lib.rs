//! Tunes the live migrations of a virtual machine by its annotations, and refuses them while its owner says so.

use hooks_sdk::{
    Context, Description, Hook, HookPoint, Migration, MigrationParameter, Result, Vmi, veto,
};

/// Why the virtual machine must stay where it is.
const HOLD: &str = "migration-tuning.example.com/hold";
/// The most to send in a second, in MiB; 0 for no limit.
const BANDWIDTH: &str = "migration-tuning.example.com/bandwidth-mib";
/// Connections for memory.
const CONNECTIONS: &str = "migration-tuning.example.com/connections";
/// `true` slows the guest down when it writes faster than memory is sent.
const AUTO_CONVERGE: &str = "migration-tuning.example.com/auto-converge";

/// The hook.
#[derive(Debug, Default)]
pub struct MigrationTuning;

impl Hook for MigrationTuning {
    const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::PreMigrationSource];

    fn describe(description: Description) -> Description {
        // It changes nothing in the domain.
        description.with_no_paths().with_migration_parameters([
            MigrationParameter::Bandwidth,
            MigrationParameter::ParallelConnections,
            MigrationParameter::AllowAutoConverge,
        ])
    }

    fn pre_migration_source(&self, vmi: &Vmi, migration: &mut Migration) -> Result {
        if let Some(reason) = vmi.annotation(HOLD) {
            return Err(veto(format!(
                "{}/{} stays on its node: {reason} (annotation {HOLD})",
                vmi.namespace(),
                vmi.name()
            )));
        }
        if let Some(mib) = number(vmi, BANDWIDTH, 1 << 20)? {
            migration.set_bandwidth(mib << 20)?;
        }
        if let Some(connections) = number(vmi, CONNECTIONS, 255)? {
            migration.set_parallel_connections(connections)?;
        }
        match vmi.annotation(AUTO_CONVERGE) {
            None => {}
            Some("true") => migration.allow_auto_converge(true),
            Some("false") => migration.allow_auto_converge(false),
            Some(other) => {
                return Err(veto(format!(
                    "{AUTO_CONVERGE} is {other:?}, neither true nor false"
                )));
            }
        }
        Ok(())
    }
}

fn number(vmi: &Vmi, annotation: &str, most: u64) -> Result<Option<u64>> {
    let Some(text) = vmi.annotation(annotation) else {
        return Ok(None);
    };
    let number: u64 = text.trim().parse().context(annotation)?;
    if number > most {
        return Err(veto(format!("{annotation} is {number}, more than {most}")));
    }
    Ok(Some(number))
}

hooks_sdk::export!(MigrationTuning);
