//! OCI image layouts (image-spec v1.1) without a container engine and without root.
//!
//! [`Layer`] collects files, directories and links and compresses them to one deterministic tar layer: sorted,
//! owned by root, with fixed times, and with file capabilities. [`Image`] starts with a base from a layout or
//! an OCI archive, or empty; adds layers; and writes a layout.
//! [`WasmArtifact`] writes a layout of a single component. [`StoredLayout`] and [`ImageFiles`] read images of others.
//!
//! A base's manifest and configuration are edited as JSON, so that members that this crate does not know
//! are kept. Every blob of a base is checked against its digest.

mod base_image;
mod blobs;
mod digest;
mod error;
mod file_capabilities;
mod file_of_base;
mod image_builder;
mod image_files;
mod layer_reader;
mod layout_writer;
mod platform_and_elf_architecture;
mod reproducible_layer;
mod stored_layout;
mod symbol_versions;
mod wasm_artifact;
mod weak_symbol_versions;

pub use digest::{Digest, InvalidDigest, sha256};
pub use error::ImageError;
pub use file_capabilities::{Capabilities, NET_BIND_SERVICE};
pub use image_builder::Image;
pub use image_files::ImageFiles;
pub use layer_reader::LayerError;
pub use platform_and_elf_architecture::{Platform, program_architecture};
pub use reproducible_layer::{CompressedLayer, Layer};
pub use stored_layout::StoredLayout;
pub use symbol_versions::{NewestVersion, missing_version, symbol_versions};
pub use wasm_artifact::{WASM_CONFIG, WASM_LAYER, WasmArtifact};
pub use weak_symbol_versions::mark_weak_versions;
