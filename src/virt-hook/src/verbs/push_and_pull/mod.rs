//! `virt-hook push` and `virt-hook pull`: images of modules in OCI registries.

mod limits;
mod manifest_blobs;
mod pull;
mod pull_by_media_type;
mod pull_from_image_files;
mod pulled_image;
mod push;
mod registry_options;

use oci_registry::RegistryError;

use crate::verb_failure::Failure;

pub(crate) use pull::{Arguments as PullArguments, HELP as PULL_HELP, run as pull};
pub(crate) use push::{Arguments as PushArguments, HELP as PUSH_HELP, run as push};

/// The media types of indexes, which have an image for each platform.
const INDEX_MEDIA_TYPES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];

/// The failure for an error of the registry or of the connection to it.
fn registry_failure(error: RegistryError) -> Failure {
    match error.is_local_or_network_error() {
        true => Failure::internal(error),
        false => Failure::refused(error),
    }
}
