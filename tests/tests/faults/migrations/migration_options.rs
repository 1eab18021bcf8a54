//! The options of a row's migration.

use serde_json::{Value, json};
use tests::migration::stock_options;

use super::migration_row::MigrationPhase;

/// At this bandwidth a migration lasts longer than a row.
const SLOW_BANDWIDTH: &str = "1Mi";
/// At this bandwidth the memory of the small guest takes some seconds.
const SHORT_TRANSFER_BANDWIDTH: &str = "20Mi";

/// The options of MigrateVirtualMachine with which the migration stays in `phase` long enough for the faults.
pub(super) fn migration_options(phase: MigrationPhase) -> Value {
    let mut options = stock_options();
    let bandwidth = match phase {
        MigrationPhase::Hooks | MigrationPhase::Transfer => SLOW_BANDWIDTH,
        MigrationPhase::ShortTransfer => SHORT_TRANSFER_BANDWIDTH,
        MigrationPhase::PostCopy => {
            options["CompletionTimeoutPerGiB"] = json!(1);
            options["AllowPostCopy"] = json!(true);
            options["AllowWorkloadDisruption"] = json!(true);
            "0"
        }
        MigrationPhase::Prepared
        | MigrationPhase::Requested
        | MigrationPhase::Switchover
        | MigrationPhase::Resumed
        | MigrationPhase::Ended => {
            return options;
        }
    };
    options["Bandwidth"] = json!(bandwidth);
    options["ParallelMigrationThreads"] = Value::Null;
    options
}
