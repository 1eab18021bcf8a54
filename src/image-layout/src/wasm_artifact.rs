//! A component as an OCI artifact, in the layout of the CNCF's WebAssembly working group.
//!
//! The manifest has one layer, the component itself, because other tools that follow the layout refuse more layers.

use std::collections::BTreeMap;
use std::path::Path;

use crate::base_image::MANIFEST;
use crate::{ImageError, blobs, layout_writer};
use serde_json::{Value as Json, json};

/// The media type of the artifact's configuration.
pub const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// The media type of the artifact's layer.
pub const WASM_LAYER: &str = "application/wasm";

/// A component, and its description in the artifact's configuration and manifest.
#[derive(Debug, Clone, Default)]
pub struct WasmArtifact {
    /// The component.
    pub component: Vec<u8>,
    /// The names of the interfaces that it exports.
    pub exports: Vec<String>,
    /// The names of the interfaces that it imports.
    pub imports: Vec<String>,
    /// The annotations of the manifest.
    pub annotations: BTreeMap<String, String>,
}

impl WasmArtifact {
    /// Writes a new layout with this artifact alone, called `name` in it. Returns the manifest's digest.
    pub fn write(&self, layout: &Path, name: &str) -> Result<String, ImageError> {
        layout_writer::write(layout, name, |layout| self.write_blobs(layout))
    }

    /// Writes the blobs and returns the manifest's descriptor.
    fn write_blobs(&self, layout: &Path) -> Result<Json, ImageError> {
        let digest = blobs::write(layout, &self.component)?;
        let config = json!({
            // Readers require a time; a fixed time keeps the artifact reproducible.
            "created": "1970-01-01T00:00:00Z",
            "architecture": "wasm",
            "os": "wasip2",
            "layerDigests": [digest],
            "component": {"exports": self.exports, "imports": self.imports, "target": null},
        });
        let mut manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": blobs::write_json(layout, WASM_CONFIG, &config)?,
            "layers": [{"mediaType": WASM_LAYER, "digest": digest, "size": self.component.len()}],
        });
        if !self.annotations.is_empty() {
            manifest["annotations"] = json!(self.annotations);
        }
        blobs::write_json(layout, MANIFEST, &manifest)
    }
}
