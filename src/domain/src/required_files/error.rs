//! Errors of determining the required files.

/// The size of images is a multiple of a mebibyte.
pub(crate) const MIB: u64 = 1024 * 1024;

/// Why the required files cannot be determined.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RequiredFileError {
    /// The VMI does not set the size of an image.
    #[error("volume {volume}: {kind} needs a capacity")]
    NoCapacity {
        /// The volume.
        volume: String,
        /// `an emptyDisk` or `a hostDisk`.
        kind: &'static str,
    },
    /// The size is less than a mebibyte.
    #[error("the size for volume {volume} is too low: {bytes} bytes, {kind} needs at least {MIB}")]
    TooSmall {
        /// The volume.
        volume: String,
        /// The requested size in bytes.
        bytes: i64,
        /// `an emptyDisk` or `a hostDisk`.
        kind: &'static str,
    },
    /// The sysprep volume refers to neither a ConfigMap nor a Secret.
    #[error("volume {volume}: a sysprep volume needs a configMap or a secret with the answer file")]
    NoSysprepSource {
        /// The volume.
        volume: String,
    },
    /// The source's virt-handler has not reported the size of a volume's image, which the migration target needs.
    #[error("failed to find the status of volume {volume}")]
    NoStatus {
        /// The volume.
        volume: String,
    },
    /// The domain's disk lacks a path.
    #[error("volume {volume}: its disk has no {what} in the domain")]
    NoPath {
        /// The volume.
        volume: String,
        /// `file` or `backing image`.
        what: &'static str,
    },
    /// A path is relative or contains `..`, because of a name in the VMI.
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
