//! The claims whose volume mode and size a file says: PersistentVolumeClaims, DataVolumes, and the DataVolume templates of
//! a VirtualMachine. A VMI gets them as the status of its volumes, as in a cluster.

use serde_json::{Map, Value, json};

use super::objects_of_file::FileObject;
use super::{DEFAULT_NAMESPACE, stored_form};

const CLAIM: &str = "PersistentVolumeClaim";
const DATA_VOLUME: &str = "DataVolume";
const BLOCK: &str = "Block";
const FILESYSTEM: &str = "Filesystem";

/// What a file says about claims.
#[derive(Debug, Default)]
pub(super) struct Claims(Vec<Claim>);

/// What a file says about a claim.
#[derive(Debug)]
struct Claim {
    /// The object's kind and name; `None` for a template of the VM itself.
    title: Option<String>,
    /// The namespace, if the file says it. An object without one is where the VM is.
    namespace: Option<String>,
    name: String,
    is_block: bool,
    access_modes: Value,
    /// The requested size, if there is one.
    size: Option<Value>,
}

/// The claims that a VMI uses.
#[derive(Debug, Default)]
pub(super) struct ClaimsInUse {
    /// The volumes whose claims are block devices.
    pub(super) block_volumes: Vec<String>,
    /// The kinds and names of the objects that say so.
    pub(super) used: Vec<String>,
}

impl Claims {
    /// The claims among the objects of a file.
    pub(super) fn of_objects(objects: &[FileObject<'_>]) -> Self {
        let claims = objects.iter().filter_map(|object| {
            let kind = object.kind()?;
            let spec = match kind {
                CLAIM => object.value.get("spec")?,
                DATA_VOLUME => claim_of_data_volume(&object.value)?,
                _ => return None,
            };
            let metadata = object.value.get("metadata")?;
            let name = metadata.get("name")?.as_str()?;
            let title = Some(format!("{kind} {name}"));
            Some(Claim::new(title, namespace(metadata), name, spec))
        });
        Self(claims.collect())
    }

    /// The claims of a VirtualMachine's DataVolume templates.
    pub(super) fn of_templates(vm: &Value) -> Self {
        let templates = vm.pointer("/spec/dataVolumeTemplates");
        let templates = templates.and_then(Value::as_array);
        let claims = templates.into_iter().flatten().filter_map(|template| {
            let name = template.pointer("/metadata/name")?.as_str()?;
            let spec = claim_of_data_volume(template)?;
            Some(Claim::new(None, None, name, spec))
        });
        Self(claims.collect())
    }

    /// Finds the claims of the VMI's volumes, first among those of its VirtualMachine's templates. If they are bound, and the file says something about one, the volumes get a
    /// status; a volume that is attached while the VM runs has none.
    pub(super) fn set_volume_status(
        &self,
        of_templates: &Self,
        vmi: &mut Map<String, Value>,
        are_bound: bool,
    ) -> ClaimsInUse {
        let mut in_use = ClaimsInUse::default();
        let namespace = vmi.get("metadata").and_then(namespace);
        let namespace = namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
        let volumes = vmi.get("spec").and_then(|spec| spec.get("volumes"));
        let volumes = volumes.and_then(Value::as_array);
        let mut statuses = Vec::new();
        let mut is_any_known = false;
        for volume in volumes.into_iter().flatten() {
            let Some(volume_name) = volume.get("name").and_then(Value::as_str) else {
                continue;
            };
            if is_hotpluggable(volume) {
                continue;
            }
            let mut status = json!({"name": volume_name, "target": ""});
            let claim = of_templates.of_volume(volume, &namespace);
            if let Some(claim) = claim.or_else(|| self.of_volume(volume, &namespace)) {
                is_any_known = true;
                status["persistentVolumeClaimInfo"] = claim.status();
                if claim.is_block {
                    in_use.block_volumes.push(volume_name.to_owned());
                }
                in_use
                    .used
                    .extend(claim.title.clone().filter(|_| are_bound));
            }
            statuses.push(status);
        }
        if are_bound
            && is_any_known
            && let Some(status) = super::kubevirt_defaults::child(vmi, "status")
        {
            status.insert("volumeStatus".to_owned(), statuses.into());
        }
        in_use
    }

    fn of_volume(&self, volume: &Value, namespace: &str) -> Option<&Claim> {
        let name = claim_name(volume)?;
        let is_there = |claim: &&Claim| {
            let of_claim = claim.namespace.as_deref();
            claim.name == name && of_claim.is_none_or(|of_claim| of_claim == namespace)
        };
        self.0.iter().find(is_there)
    }
}

impl Claim {
    fn new(title: Option<String>, namespace: Option<String>, name: &str, spec: &Value) -> Self {
        let size = spec.pointer("/resources/requests/storage").cloned();
        Self {
            title,
            namespace,
            name: name.to_owned(),
            is_block: spec.get("volumeMode").and_then(Value::as_str) == Some(BLOCK),
            access_modes: spec
                .get("accessModes")
                .cloned()
                .unwrap_or_else(|| json!([])),
            size: size.map(|mut size| {
                stored_form::store_quantity(&mut size);
                size
            }),
        }
    }

    /// `persistentVolumeClaimInfo` of the volume's status. The capacity is the requested size, which a storage class may
    /// exceed.
    fn status(&self) -> Value {
        let mode = match self.is_block {
            true => BLOCK,
            false => FILESYSTEM,
        };
        let mut status = json!({
            "claimName": self.name,
            "accessModes": self.access_modes,
            "volumeMode": mode,
        });
        if let Some(size) = &self.size {
            status["capacity"] = json!({"storage": size});
            status["requests"] = json!({"storage": size});
        }
        status
    }
}

/// The claim that a DataVolume asks for.
fn claim_of_data_volume(data_volume: &Value) -> Option<&Value> {
    let spec = data_volume.get("spec")?;
    let claim = |field: &str| spec.get(field).filter(|claim| claim.is_object());
    claim("pvc").or_else(|| claim("storage"))
}

/// The name of a volume's claim. That of a DataVolume has the name of the DataVolume.
fn claim_name(volume: &Value) -> Option<&str> {
    let text = |path: &str| volume.pointer(path)?.as_str();
    text("/persistentVolumeClaim/claimName").or_else(|| text("/dataVolume/name"))
}

fn is_hotpluggable(volume: &Value) -> bool {
    let is_true = |path: &str| volume.pointer(path) == Some(&Value::Bool(true));
    is_true("/persistentVolumeClaim/hotpluggable") || is_true("/dataVolume/hotpluggable")
}

fn namespace(metadata: &Value) -> Option<String> {
    let namespace = metadata.get("namespace")?.as_str()?;
    (!namespace.is_empty()).then(|| namespace.to_owned())
}
