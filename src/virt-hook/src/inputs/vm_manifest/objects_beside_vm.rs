//! The first VM of a VirtualMachinePool, and the first VMI of a VirtualMachineInstanceReplicaSet.

use std::collections::HashMap;

use kubevirt_api::vmi::Vmi;
use serde_json::{Map, Value, json};

use super::{
    DEFAULT_NAMESPACE, FileObject, GENERATED_SUFFIX, ManifestError, Note, POOL, REPLICA_SET, VM,
    VMI, known_fields,
};

/// The VirtualMachine that a pool names its first, with the number 0, and a note about it.
pub(super) fn first_of_pool(pool: &Value) -> Result<(Value, Note), ManifestError> {
    let owner = Owner::of(pool)?;
    let template = pool.pointer("/spec/virtualMachineTemplate");
    let template = template.and_then(Value::as_object);
    let template =
        template.ok_or_else(|| ManifestError::missing_in(POOL, "spec.virtualMachineTemplate"))?;
    let spec = template.get("spec").cloned().unwrap_or_default();
    let vm = json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": VM,
        "metadata": owner.metadata(template, format!("{}-0", owner.name)),
        "spec": with_numbered_data_volumes(spec),
    });
    Ok((vm, owner.note(POOL, "VMs")))
}

/// A VirtualMachineInstance of a replica set, whose name a cluster would complete with random characters.
pub(super) fn first_of_replica_set(replica_set: &Value) -> Result<(Value, Note), ManifestError> {
    let owner = Owner::of(replica_set)?;
    let template = replica_set.pointer("/spec/template");
    let template = template.and_then(Value::as_object);
    let template =
        template.ok_or_else(|| ManifestError::missing_in(REPLICA_SET, "spec.template"))?;
    let of_template = |field: &str| {
        let text = template.get("metadata")?.get(field)?.as_str()?;
        (!text.is_empty()).then_some(text)
    };
    let base = of_template("name").or_else(|| of_template("generateName"));
    let name = format!("{}{GENERATED_SUFFIX}", base.unwrap_or(owner.name));
    let vmi = json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": VMI,
        "metadata": owner.metadata(template, name),
        "spec": template.get("spec"),
    });
    Ok((vmi, owner.note(REPLICA_SET, "VMIs")))
}

/// What VMs take from the object that owns them.
struct Owner<'a> {
    name: &'a str,
    namespace: Option<&'a Value>,
    replicas: u64,
}

impl<'a> Owner<'a> {
    fn of(object: &'a Value) -> Result<Self, ManifestError> {
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        let replicas = object.pointer("/spec/replicas").and_then(Value::as_u64);
        Ok(Self {
            name: name
                .filter(|name| !name.is_empty())
                .ok_or(ManifestError::Missing("metadata.name"))?,
            namespace: object.pointer("/metadata/namespace"),
            replicas: replicas.unwrap_or(1),
        })
    }

    /// The metadata of the template with the name of a VM.
    fn metadata(&self, template: &Map<String, Value>, name: String) -> Map<String, Value> {
        let of_template = template.get("metadata").and_then(Value::as_object);
        let mut metadata = of_template.cloned().unwrap_or_default();
        metadata.remove("generateName");
        metadata.insert("name".to_owned(), name.into());
        if let Some(namespace) = self.namespace {
            metadata.insert("namespace".to_owned(), namespace.clone());
        }
        metadata
    }

    fn note(&self, kind: &str, what: &str) -> Note {
        let Self { name, replicas, .. } = self;
        Note::origin(match replicas {
            1 => format!("it is the only one of the {what} of {kind} {name}"),
            _ => format!("it is one of the {replicas} {what} of {kind} {name}"),
        })
    }
}

/// A pool gives each VM DataVolumes of its own: the names of their templates, and the volumes that refer to them, get the
/// VM's number.
fn with_numbered_data_volumes(mut spec: Value) -> Value {
    let mut new_names: HashMap<String, String> = HashMap::new();
    let templates = spec
        .get_mut("dataVolumeTemplates")
        .and_then(Value::as_array_mut);
    for template in templates.into_iter().flatten() {
        if let Some(Value::String(name)) = template.pointer_mut("/metadata/name") {
            let numbered = format!("{name}-0");
            new_names.insert(std::mem::replace(name, numbered.clone()), numbered);
        }
    }
    let volumes = spec
        .pointer_mut("/template/spec/volumes")
        .and_then(Value::as_array_mut);
    for volume in volumes.into_iter().flatten() {
        for path in ["/dataVolume/name", "/persistentVolumeClaim/claimName"] {
            if let Some(Value::String(name)) = volume.pointer_mut(path)
                && let Some(numbered) = new_names.get(name)
            {
                name.clone_from(numbered);
            }
        }
    }
    spec
}

// The claims whose volume mode and size a file says: PersistentVolumeClaims, DataVolumes, and the DataVolume templates of
// a VirtualMachine. A VMI gets them as the status of its volumes, as in a cluster.

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
                known_fields::store_quantity(&mut size);
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

// VirtualMachineInstancePresets of a file, which a cluster applies to new VMIs with their labels. They are deprecated, and
// not applied here.

const PRESET: &str = "VirtualMachineInstancePreset";
/// The annotation of a VMI that no preset is applied to, with the value `true`.
const EXCLUSION: &str = "virtualmachineinstancepresets.admission.kubevirt.io/exclude";
/// A cluster annotates a VMI with this and the name of each preset that was applied.
const APPLIED_PREFIX: &str = "virtualmachinepreset.kubevirt.io/";

/// The presets of a file.
#[derive(Debug, Default)]
pub(super) struct Presets(Vec<Preset>);

#[derive(Debug)]
struct Preset {
    namespace: String,
    name: String,
    /// The labels that a VMI must have. Expressions of a selector count as met.
    labels: Map<String, Value>,
}

impl Presets {
    pub(super) fn of_objects(objects: &[FileObject<'_>]) -> Self {
        let presets = objects
            .iter()
            .filter(|object| object.kind() == Some(PRESET))
            .filter_map(|object| {
                let text = |field: &str| object.value.pointer(field).and_then(Value::as_str);
                let labels = object.value.pointer("/spec/selector/matchLabels");
                Some(Preset {
                    namespace: text("/metadata/namespace")
                        .unwrap_or(DEFAULT_NAMESPACE)
                        .to_owned(),
                    name: text("/metadata/name")?.to_owned(),
                    labels: labels
                        .and_then(Value::as_object)
                        .cloned()
                        .unwrap_or_default(),
                })
            });
        Self(presets.collect())
    }

    /// A note for each preset that a cluster would apply to the VMI.
    pub(super) fn notes(&self, vmi: &Vmi) -> Vec<Note> {
        if vmi.annotation(EXCLUSION) == Some("true") {
            return Vec::new();
        }
        let labels = vmi.value().pointer("/metadata/labels");
        let selects = |preset: &&Preset| {
            let mut wanted = preset.labels.iter();
            let is_applied = vmi
                .annotation(&format!("{APPLIED_PREFIX}{}", preset.name))
                .is_some();
            preset.namespace == vmi.namespace()
                && !is_applied
                && wanted
                    .all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
        };
        let note = |preset: &Preset| {
            Note::not_applied(format!(
                "the {PRESET} {} is not applied: write what it sets into the VM, or give the VirtualMachineInstance (kubectl get vmi \
                 NAME -o yaml)",
                preset.name
            ))
        };
        self.0.iter().filter(selects).map(note).collect()
    }
}
