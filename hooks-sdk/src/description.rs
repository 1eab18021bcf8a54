//! What a hook tells the host about itself.

#[cfg(test)]
mod tests;
#[cfg(not(target_family = "wasm"))]
mod validation;
mod value_condition;

use crate::{HookPoint, MigrationParameter};
pub use value_condition::ValueCondition;

/// A hook's description of itself: name, version, hook points, wishes.
///
/// [`Hook::describe`](crate::Hook::describe) gets one with the crate's name and version, and adds to it:
///
/// ```
/// # use hooks_sdk::{Domain, Hook, HookPoint, Result, Vmi};
/// use hooks_sdk::Description;
///
/// # #[derive(Default)]
/// # struct Queues;
/// impl Hook for Queues {
///     const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::OnDefineDomain, HookPoint::Shutdown];
///
///     fn describe(description: Description) -> Description {
///         description
///             .with_priority(10)
///             .with_priority_at(HookPoint::Shutdown, -1)
///             .with_paths(["/domain/devices/disk/driver/@queues"])
///             .with_config(["queues"])
///             .with_pod_facts(["labels/tier"])
///     }
/// #   fn on_define_domain(&self, _: &Vmi, _: &mut Domain) -> Result { Ok(()) }
/// }
/// # hooks_sdk::native_call::on_define_domain::<Queues>("{}", "<domain/>").unwrap();
/// ```
///
/// The host refuses a module whose description is invalid: a name of more than 253 bytes, a path that does not begin
/// with `/domain/`, a fact about the pod that does not exist. [`native_call`](crate::native_call) and the test that
/// [`export!`](crate::export!) makes check the same rules natively.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    name: String,
    version: String,
    /// The priority at hook points without one of their own.
    priority: i32,
    points: Vec<(HookPoint, Option<i32>)>,
    wishes: Option<Wishes>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Wishes {
    paths: Vec<PathWish>,
    config: Vec<String>,
    dirs: Vec<String>,
    migration: Vec<MigrationParameter>,
    pod: Vec<String>,
}

/// A path that the hook changes, and what it writes there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PathWish {
    /// As in the description. It is written when it is added, so that modules without conditions do not contain how conditions
    /// are written.
    json: String,
    #[cfg(not(target_family = "wasm"))]
    path: String,
    #[cfg(not(target_family = "wasm"))]
    condition: Option<ValueCondition>,
}

impl Wishes {
    fn add_paths(&mut self, paths: Vec<String>) {
        self.paths.extend(paths.into_iter().map(|path| PathWish {
            json: quoted(&path),
            #[cfg(not(target_family = "wasm"))]
            path,
            #[cfg(not(target_family = "wasm"))]
            condition: None,
        }));
    }
}

/// A text in JSON.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

impl Description {
    /// A hook with priority 0 at these hook points. The SDK calls this; [`Hook::describe`](crate::Hook::describe) gets
    /// the result.
    #[doc(hidden)]
    pub fn new(name: &str, version: &str, points: &[HookPoint]) -> Description {
        let points = points.iter().map(|point| (*point, None)).collect();
        Description {
            name: name.to_owned(),
            version: version.to_owned(),
            priority: 0,
            points,
            wishes: None,
        }
    }

    /// Gives the hook another name than its crate's: at most 253 bytes.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Description {
        self.name = name.into();
        self
    }

    /// Gives the hook another version than its crate's: at most 253 bytes.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> Description {
        self.version = version.into();
        self
    }

    /// Runs the hook before those with a lower priority, at all its hook points except those with a
    /// [priority of their own](Description::with_priority_at).
    #[must_use]
    pub fn with_priority(mut self, priority: i32) -> Description {
        self.priority = priority;
        self
    }

    /// Sets the priority at one hook point, whatever [`Description::with_priority`] says, before or after this call.
    ///
    /// # Panics
    ///
    /// If the hook is not at this hook point, since the priority would have no effect. A description takes no input, so
    /// this happens in the hook's first test, or never.
    #[must_use]
    #[track_caller]
    pub fn with_priority_at(mut self, point: HookPoint, priority: i32) -> Description {
        let mut points = self.points.iter_mut();
        let Some((_, point_priority)) = points.find(|(listed, _)| *listed == point) else {
            let name = point.name();
            panic!("with_priority_at: {name} is not in the hook's HOOK_POINTS: add it there");
        };
        *point_priority = Some(priority);
        self
    }

    /// The paths of the domain that the hook changes, as patterns from `/domain/` on. The host refuses
    /// every other change. A hook without paths cannot change the domain.
    ///
    /// At most 256 paths of at most 1024 bytes and 8 predicates each. A path that ends in the name of an element includes
    /// its own attributes.
    #[must_use]
    pub fn with_paths(mut self, paths: impl IntoIterator<Item = impl AsRef<str>>) -> Description {
        let mut texts = Vec::new();
        add(&mut texts, paths);
        self.wishes().add_paths(texts);
        self
    }

    /// A path of the domain that the hook changes, and what it writes there. The path ends in the name of an attribute, or
    /// of an element whose text is meant. Hosts without conditions refuse the module, rather than granting it every value.
    ///
    /// ```
    /// # use hooks_sdk::{Description, ValueCondition};
    /// # fn describe(description: Description) -> Description {
    /// description
    ///     .with_paths(["/domain/devices/serial/**"])
    ///     .with_conditioned_path(
    ///         "/domain/devices/serial/log/@file",
    ///         ValueCondition::below("/var/log/vms"),
    ///     )
    /// # }
    /// ```
    #[must_use]
    pub fn with_conditioned_path(
        mut self,
        path: impl Into<String>,
        condition: ValueCondition,
    ) -> Description {
        let path = path.into();
        self.wishes().paths.push(PathWish {
            json: format!("{{\"path\":{}{}}}", quoted(&path), condition.json_members()),
            #[cfg(not(target_family = "wasm"))]
            path,
            #[cfg(not(target_family = "wasm"))]
            condition: Some(condition),
        });
        self
    }

    /// Declares that the hook changes nothing in the domain, even if a `hook.yaml` allows it some paths.
    #[must_use]
    pub fn with_no_paths(mut self) -> Description {
        self.wishes().paths.clear();
        self
    }

    /// The configuration keys that the hook reads with [`host::config`](crate::host::config). At most 256.
    #[must_use]
    pub fn with_config(mut self, keys: impl IntoIterator<Item = impl AsRef<str>>) -> Description {
        add(&mut self.wishes().config, keys);
        self
    }

    /// The directories that the hook reads: absolute, without `.` and `..`; at most 256. They are available, read-only,
    /// if the operator's policy allows them.
    #[must_use]
    pub fn with_dirs(mut self, dirs: impl IntoIterator<Item = impl AsRef<str>>) -> Description {
        add(&mut self.wishes().dirs, dirs);
        self
    }

    /// The parameters of a migration that the hook changes.
    #[must_use]
    pub fn with_migration_parameters(
        mut self,
        parameters: impl IntoIterator<Item = MigrationParameter>,
    ) -> Description {
        self.wishes().migration.extend(parameters);
        self
    }

    /// The facts about the pod that the hook reads with [`pod`](crate::pod): `annotations/KEY`, `labels/KEY`,
    /// `network-status/NAMESPACE/NAME`, `default-network`, `network-info`; a `*` stands for any characters. At most 256
    /// of at most 512 bytes. They are given if the operator's policy allows them.
    #[must_use]
    pub fn with_pod_facts(
        mut self,
        facts: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Description {
        add(&mut self.wishes().pod, facts);
        self
    }

    fn wishes(&mut self) -> &mut Wishes {
        self.wishes.get_or_insert_default()
    }

    /// The declared paths, without their conditions.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn paths(&self) -> Vec<&str> {
        let wishes = self.wishes.iter().flat_map(|wishes| &wishes.paths);
        wishes.map(|wish| wish.path.as_str()).collect()
    }

    /// The declared keys of the configuration.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn config_keys(&self) -> &[String] {
        self.wishes.as_ref().map_or(&[], |wishes| &wishes.config)
    }

    /// The declared facts about the pod.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn pod_facts(&self) -> &[String] {
        self.wishes.as_ref().map_or(&[], |wishes| &wishes.pod)
    }

    /// The declared parameters of a migration.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn migration(&self) -> &[MigrationParameter] {
        self.wishes.as_ref().map_or(&[], |wishes| &wishes.migration)
    }

    /// The JSON that the host reads, for the SDK. Written by hand, since a general serializer would
    /// add some 8 KB to each module.
    #[doc(hidden)]
    pub fn to_json(&self) -> String {
        let point = |(point, priority): &(HookPoint, Option<i32>)| {
            let priority = priority.unwrap_or(self.priority);
            format!("{{\"name\":\"{}\",\"priority\":{priority}}}", point.name())
        };
        let points: Vec<String> = self.points.iter().map(point).collect();
        let list = |texts: &[String]| -> String {
            let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
            texts.join(",")
        };
        let wishes = |wishes: &Wishes| {
            let optional = |name: &str, texts: &[String]| match texts {
                [] => String::new(),
                texts => format!(",\"{name}\":[{}]", list(texts)),
            };
            let parameters = wishes.migration.iter();
            let parameters: Vec<String> = parameters
                .map(|parameter| parameter.name().to_owned())
                .collect();
            let migration = optional("migration", &parameters);
            let pod = optional("pod", &wishes.pod);
            let paths = wishes.paths.iter().map(|wish| wish.json.clone());
            let paths: Vec<String> = paths.collect();
            format!(
                ",\"wishes\":{{\"paths\":[{}],\"config\":[{}],\"dirs\":[{}]{migration}{pod}}}",
                paths.join(","),
                list(&wishes.config),
                list(&wishes.dirs)
            )
        };
        format!(
            "{{\"name\":{},\"version\":{},\"hookPoints\":[{}]{}}}",
            quoted(&self.name),
            quoted(&self.version),
            points.join(","),
            self.wishes.as_ref().map(wishes).unwrap_or_default()
        )
    }
}

fn add(list: &mut Vec<String>, texts: impl IntoIterator<Item = impl AsRef<str>>) {
    list.extend(texts.into_iter().map(|text| text.as_ref().to_owned()));
}
