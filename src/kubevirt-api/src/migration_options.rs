//! The options of `MigrateVirtualMachine`, as virt-handler sends them: JSON with the names of Go's fields.

use quantity::Quantity;
use serde::Deserialize;
use serde_json::Value;

/// The maximum size of the options in bytes.
const MAX_BYTES: usize = 64 * 1024;
/// The value of `Compression` that turns compression off.
const NO_COMPRESSION: &str = "none";

/// The options of a migration. A missing field is zero, as in Go.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct MigrationOptions {
    /// Bandwidth limit in bytes per second; zero for no limit.
    pub bandwidth: Quantity,
    /// Seconds without progress after which the migration is aborted; zero for never.
    pub progress_timeout: i64,
    /// Seconds per 10⁹ bytes after which the migration is completed by force or aborted; zero for never.
    #[serde(rename = "CompletionTimeoutPerGiB")]
    pub completion_timeout_per_gib: i64,
    /// The maximum downtime of the guest in milliseconds.
    pub max_downtime_ms: u64,
    /// Skip libvirt's safety checks.
    pub unsafe_migration: bool,
    /// Throttle the guest if it changes memory faster than memory is sent.
    pub allow_auto_converge: bool,
    /// The guest may continue on the target before all its memory has arrived.
    pub allow_post_copy: bool,
    /// The number of connections that send memory.
    pub parallel_migration_threads: Option<u32>,
    /// The guest may be paused, or continue on the target, to complete the migration.
    pub allow_workload_disruption: bool,
    /// Detects a stall from memory iterations, instead of by the two timeouts.
    pub stall_detector_options: Option<StallDetectorOptions>,
    /// Raises the maximum downtime in steps, from KubeVirt v1.10 on.
    pub downtime_tuning: Option<DowntimeTuning>,
    /// The compression of memory: `zstd`, `none` or empty.
    pub compression: Option<String>,
}

/// A method of compression that KubeVirt does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no method of compression that KubeVirt has")]
pub struct UnknownCompression(pub String);

/// How the maximum downtime is raised to [`MigrationOptions::max_downtime_ms`]. Missing values are KubeVirt's defaults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DowntimeTuning {
    /// The first maximum downtime in milliseconds.
    pub initial_ms: Option<i64>,
    /// The number of steps from the first to the last value.
    pub steps: Option<i32>,
    /// The iteration over the guest's memory before which there is no step.
    pub start_after_iteration: Option<i64>,
    /// The smallest number of seconds between two steps.
    pub cooldown_seconds: Option<i32>,
}

/// How a migration that does not converge is detected and handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(from = "SentStallDetectorOptions")]
pub struct StallDetectorOptions {
    /// Relative tolerance when the remaining memory is compared with its smallest value so far.
    pub stall_margin: f64,
    /// Seconds in which the remaining memory has to shrink.
    pub stall_progress_timeout: u64,
    /// Seconds that a switchover may take.
    pub switchover_timeout: u64,
    /// The weight of a new measurement of the bandwidth, from 0 to 1.
    pub ewma_alpha: f64,
    /// The limit of the expected downtime, as a multiple of the maximum downtime.
    pub precopy_possible_factor: f64,
    /// The factor that shortens the time after which a larger amount of remaining memory is accepted.
    pub patience_window_decay_factor: f64,
    /// Whether to act on a stall only when the remaining memory is near its smallest value so far.
    pub search_local_minima: bool,
    /// The timeout of the whole migration, as a multiple of the completion timeout.
    pub completion_timeout_factor: f64,
}

/// The options as a cluster sends them. Up to v1.9 `EwmaAlpha` and the factors are numbers and `StallMargin` is a fraction,
/// from v1.10 on they are quantities and a percentage.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct SentStallDetectorOptions {
    stall_margin: f64,
    stall_progress_timeout: u64,
    switchover_timeout: u64,
    ewma_alpha: NumberOrQuantity,
    precopy_possible_factor: NumberOrQuantity,
    patience_window_decay_factor: NumberOrQuantity,
    search_local_minima: bool,
    completion_timeout_factor: NumberOrQuantity,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged)]
enum NumberOrQuantity {
    Number(f64),
    Quantity(Quantity),
}

impl Default for NumberOrQuantity {
    fn default() -> Self {
        Self::Number(0.0)
    }
}

impl NumberOrQuantity {
    #[allow(clippy::cast_precision_loss, reason = "factors are small")]
    fn value(self) -> f64 {
        match self {
            Self::Number(number) => number,
            Self::Quantity(quantity) => quantity.milli_value() as f64 / 1000.0,
        }
    }
}

impl From<SentStallDetectorOptions> for StallDetectorOptions {
    fn from(sent: SentStallDetectorOptions) -> Self {
        let is_percentage = matches!(sent.ewma_alpha, NumberOrQuantity::Quantity(_));
        Self {
            stall_margin: match is_percentage {
                true => sent.stall_margin / 100.0,
                false => sent.stall_margin,
            },
            stall_progress_timeout: sent.stall_progress_timeout,
            switchover_timeout: sent.switchover_timeout,
            ewma_alpha: sent.ewma_alpha.value(),
            precopy_possible_factor: sent.precopy_possible_factor.value(),
            patience_window_decay_factor: sent.patience_window_decay_factor.value(),
            search_local_minima: sent.search_local_minima,
            completion_timeout_factor: sent.completion_timeout_factor.value(),
        }
    }
}

/// Why the options cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MigrationOptionsError {
    /// The request has no options.
    #[error("migration options object not present in command server request")]
    Missing,
    /// The options exceed the size limit.
    #[error(
        "no valid migration options object present in command server request: it has {bytes} bytes, \
         more than the {MAX_BYTES} that are read"
    )]
    TooLarge {
        /// The size of the options.
        bytes: usize,
    },
    /// The options are not JSON, or a field has the wrong type.
    #[error(
        "no valid migration options object present in command server request: {path}: {message}"
    )]
    Invalid {
        /// Path of the field; `.` for the whole object.
        path: String,
        /// The parse error.
        message: String,
    },
    /// The bandwidth is below zero.
    #[error("the migration's bandwidth is negative; zero means that there is no limit")]
    NegativeBandwidth,
}

impl MigrationOptions {
    /// Parses the options.
    ///
    /// # Errors
    /// [`MigrationOptionsError`] if the options are missing, too large, not JSON, or a field has the wrong type.
    pub fn from_json(json: &[u8]) -> Result<MigrationOptions, MigrationOptionsError> {
        if json.is_empty() {
            return Err(MigrationOptionsError::Missing);
        }
        if json.len() > MAX_BYTES {
            return Err(MigrationOptionsError::TooLarge { bytes: json.len() });
        }
        let invalid =
            |path: String, message: String| MigrationOptionsError::Invalid { path, message };
        let value: Value =
            serde_json::from_slice(json).map_err(|error| invalid(".".into(), error.to_string()))?;
        if !value.is_object() {
            return Err(invalid(".".into(), "it is not a JSON object".into()));
        }
        let options: MigrationOptions = serde_path_to_error::deserialize(&value)
            .map_err(|error| invalid(error.path().to_string(), error.inner().to_string()))?;
        options.mib_per_second()?;
        Ok(options)
    }

    /// The bandwidth limit in libvirt's unit: MiB/s, rounded, at least 1; `None` for no limit.
    ///
    /// # Errors
    /// [`MigrationOptionsError::NegativeBandwidth`].
    pub fn mib_per_second(&self) -> Result<Option<u64>, MigrationOptionsError> {
        const MIB: u64 = 1 << 20;
        if self.bandwidth.is_zero() {
            return Ok(None);
        }
        let bytes = self.bandwidth.memory_bytes();
        let bytes = bytes.map_err(|_| MigrationOptionsError::NegativeBandwidth)?;
        let rounded = bytes / MIB + u64::from(bytes % MIB >= MIB / 2);
        Ok(Some(rounded.max(1)))
    }

    /// The compression method for memory, if any.
    ///
    /// # Errors
    /// The method is none that KubeVirt knows. Memory is then not compressed.
    pub fn compression(&self) -> Result<Option<&str>, UnknownCompression> {
        match self.compression.as_deref() {
            None | Some("" | NO_COMPRESSION) => Ok(None),
            Some(method @ "zstd") => Ok(Some(method)),
            Some(unknown) => Err(UnknownCompression(unknown.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT_OPTIONS: &[u8] = br#"{"Bandwidth": "0", "ProgressTimeout": 150, "CompletionTimeoutPerGiB": 150,
        "MaxDowntimeMs": 900, "UnsafeMigration": false, "AllowAutoConverge": false, "AllowPostCopy": false,
        "ParallelMigrationThreads": 8, "AllowWorkloadDisruption": false, "StallDetectorOptions": null,
        "Compression": null, "NewerField": 1}"#;

    fn parse(json: &str) -> Result<MigrationOptions, String> {
        MigrationOptions::from_json(json.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn default_options_are_parsed() {
        let options = MigrationOptions::from_json(DEFAULT_OPTIONS).unwrap();
        assert_eq!(options.completion_timeout_per_gib, 150);
        assert_eq!(options.parallel_migration_threads, Some(8));
        assert_eq!(options.mib_per_second().unwrap(), None);
        assert_eq!(options.compression(), Ok(None));
        assert_eq!(parse("{}").unwrap(), MigrationOptions::default());
    }

    #[test]
    fn bandwidth_is_rounded_to_mib_and_never_to_zero() {
        let mib_per_second = |bandwidth: &str| {
            let options = parse(&format!(r#"{{"Bandwidth": "{bandwidth}"}}"#)).unwrap();
            options.mib_per_second().unwrap()
        };
        let expected = [
            ("0", None),
            ("1", Some(1)),
            ("1Mi", Some(1)),
            ("1572863", Some(1)),
            ("1572864", Some(2)),
            ("10Mi", Some(10)),
            ("10M", Some(10)),
            ("64Gi", Some(65536)),
        ];
        for (bandwidth, mib) in expected {
            assert_eq!(mib_per_second(bandwidth), mib, "{bandwidth}");
        }
    }

    #[test]
    fn compression_is_zstd_or_none() {
        let options = |method: &str| parse(&format!(r#"{{"Compression": "{method}"}}"#)).unwrap();
        assert_eq!(options("zstd").compression(), Ok(Some("zstd")));
        assert_eq!(options("none").compression(), Ok(None));
        assert_eq!(options("").compression(), Ok(None));
        assert_eq!(
            options("lz4").compression().unwrap_err().to_string(),
            "\"lz4\" is no method of compression that KubeVirt has"
        );
    }

    #[test]
    fn stall_detector_options_are_parsed() {
        let json = r#"{"StallDetectorOptions": {"StallMargin": 0.04, "StallProgressTimeout": 40,
            "SwitchoverTimeout": 60, "EwmaAlpha": 0.4, "PrecopyPossibleFactor": 1.5,
            "PatienceWindowDecayFactor": 0.5, "SearchLocalMinima": true, "CompletionTimeoutFactor": 2}}"#;
        let stall = parse(json).unwrap().stall_detector_options.unwrap();
        assert_eq!((stall.stall_margin, stall.ewma_alpha), (0.04, 0.4));
        assert!(stall.search_local_minima);
    }

    #[test]
    fn errors_of_invalid_options_name_the_field() {
        assert!(parse("").unwrap_err().contains("not present"));
        let wrong_type = parse(r#"{"StallDetectorOptions": {"StallMargin": "x"}}"#).unwrap_err();
        assert!(
            wrong_type.contains("StallDetectorOptions.StallMargin"),
            "{wrong_type}"
        );
        for invalid in ["null", "[]", "{", "{} x", r#"{"Bandwidth": "fast"}"#] {
            let error = parse(invalid).unwrap_err();
            assert!(
                error.starts_with("no valid migration options object"),
                "{invalid}: {error}"
            );
        }
        let negative = parse(r#"{"Bandwidth": "-1Mi"}"#).unwrap_err();
        assert!(negative.contains("negative"), "{negative}");
        let large = MigrationOptions::from_json(&vec![b' '; MAX_BYTES + 1]).unwrap_err();
        assert!(large.to_string().contains("65537 bytes"), "{large}");
    }
}
