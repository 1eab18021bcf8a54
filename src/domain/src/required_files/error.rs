//! Why the required files cannot be determined.

/// Image sizes are whole mebibytes.
pub(crate) const MIB: u64 = 1024 * 1024;

/// Why the required files cannot be determined.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RequiredFileError {
    /// The VMI gives no size.
    #[error("volume {volume}: {kind} needs a capacity")]
    NoCapacity {
        /// The volume.
        volume: String,
        /// `an emptyDisk`, `a hostDisk`.
        kind: &'static str,
    },
    /// Less than a mebibyte.
    #[error("the size for volume {volume} is too low: {bytes} bytes, {kind} needs at least {MIB}")]
    TooSmall {
        /// The volume.
        volume: String,
        /// The requested size in bytes.
        bytes: i64,
        /// `an emptyDisk`, `a hostDisk`.
        kind: &'static str,
    },
    /// The sysprep volume names neither configMap nor secret.
    #[error("volume {volume}: a sysprep volume needs a configMap or a secret with the answer file")]
    NoSysprepSource {
        /// The volume.
        volume: String,
    },
    /// The source's virt-handler has not reported the volume, whose image a migration's target makes in the same size.
    #[error("failed to find the status of volume {volume}")]
    NoStatus {
        /// The volume.
        volume: String,
    },
    /// The domain's disk has no such path.
    #[error("volume {volume}: its disk has no {what} in the domain")]
    NoPath {
        /// The volume.
        volume: String,
        /// `file` or `backing image`.
        what: &'static str,
    },
    /// A name in the VMI leads the path out of its directory.
    #[error(
        "volume {volume}: {path} is not an absolute path without \"..\"; names must not contain slashes or dots alone"
    )]
    Escapes {
        /// The volume, or `kernel boot`.
        volume: String,
        /// The path.
        path: String,
    },
}
