//! Resolves a module's wishes, `hook.yaml` and the operator's policy to the hook's settings: a pure
//! function.
//!
//! One file per setting: the check of the module's digest ([`digest_check`]), hook points and priorities
//! ([`subscriptions`]), failure policy ([`failure_policy`]), limits ([`limits`]), configuration and
//! directories ([`config_and_dirs`]), parameters of a migration ([`migration_parameters`]), facts about the
//! pod ([`pod_facts`]), what a `hook.yaml` may say about a final hook ([`final_hook_yaml`]), and the domain paths that
//! the hook may change ([`domain_paths`]). The rules of the operator's policy that apply depend on the module's signature
//! ([`applicable_rules`]).

mod final_hook_yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::domain_grant::Grant;
use super::hook_yaml::HookYaml;
use super::module_signature::ModuleSignature;
use super::operator_policy::{Allow, OperatorPolicy};
use super::yaml_values::WithPosition;
use crate::module_description::{Description, Subscription, Wishes};
use crate::pod_facts::{PodGrant, PodLayer, PodPattern};
use crate::policy::PolicyError;
use crate::policy::dangerous_patterns::kinds_named;
use crate::policy::domain_grant::Layer;
use crate::policy::module_signature::Signer;
use crate::policy::operator_policy::{Digests, Rule, Sidecars};
use crate::policy::pattern_subset::is_superset;
use crate::policy::policy_file::YamlPosition;
use crate::policy::unknown_domain_path::UnknownPath;
use crate::policy::yaml_values::{Dangerous, Directory, SignerKey, SizeValue};
use crate::{ConditionedPath, FailurePolicy, HookPoint, Limits, MigrationParameter};

/// The module whose settings are resolved.
#[derive(Debug, Clone, Copy)]
pub struct ModuleIdentity<'a> {
    /// The sha256 of the module in lower-case hexadecimal.
    pub digest: &'a str,
    /// The virtual machine's namespace; empty if the namespace is not known.
    pub namespace: &'a str,
    /// The result of verifying the module's signature with the keys of the policy.
    pub signature: &'a ModuleSignature,
    /// The module's description.
    pub description: &'a Description,
}

/// How a hook runs, and what it may do.
#[derive(Debug, Clone)]
pub struct EffectiveSettings {
    /// Hook points and priorities.
    pub hook_points: Vec<Subscription>,
    /// File, line and column of the `final: true` in the operator's policy that makes it a final hook; `None` for others.
    pub final_rule: Option<String>,
    /// How a failure of the hook is handled.
    pub failure_policy: FailurePolicy,
    /// Limits of a call.
    pub limits: Limits,
    /// The configuration that the hook reads.
    pub config: BTreeMap<String, String>,
    /// Directories that the hook may read.
    pub dirs: Vec<PathBuf>,
    /// The directories of the operator's policy. A directory of the hook is opened only below one of them.
    pub dir_roots: Vec<PathBuf>,
    /// Parameters of a migration that the hook may change.
    pub migration: BTreeSet<MigrationParameter>,
    /// Facts about the pod that the hook may read.
    pub(crate) pod: Arc<PodGrant>,
    /// The changes of the domain that the hook may make.
    pub(crate) grant: Grant,
}

/// Resolves the settings of a module.
pub(crate) fn resolve(
    identity: ModuleIdentity<'_>,
    base: &Limits,
    yaml: Option<&HookYaml>,
    operator: Option<&OperatorPolicy>,
) -> Result<EffectiveSettings, ResolveError> {
    let resolver = Resolver::of_module(identity, yaml, operator)?;
    resolver.check_digest()?;
    resolver.refuse_weakening_keys(base)?;
    Ok(EffectiveSettings {
        hook_points: resolver.hook_points()?,
        final_rule: resolver.final_rule.clone(),
        failure_policy: resolver.failure_policy()?,
        limits: resolver.limits(base)?,
        config: resolver.config()?,
        dirs: resolver.dirs()?,
        dir_roots: resolver.dir_roots(),
        migration: resolver.migration()?,
        pod: Arc::new(resolver.pod()),
        grant: resolver.grant()?,
    })
}

/// Checks whether a module may be compiled and asked for its description. The description in `identity` is ignored.
pub(crate) fn admit(
    identity: ModuleIdentity<'_>,
    yaml: Option<&HookYaml>,
    operator: Option<&OperatorPolicy>,
) -> Result<(), ResolveError> {
    Resolver::of_module(identity, yaml, operator)?.check_digest()
}

/// The inputs of the resolution of one hook.
#[derive(Clone)]
struct Resolver<'a> {
    identity: ModuleIdentity<'a>,
    yaml: Option<&'a HookYaml>,
    operator: Option<&'a OperatorPolicy>,
    /// The `allow` sections of the operator's rules that apply to the module.
    rules: Vec<&'a Allow>,
    /// Whether a key of an applicable rule signed the module.
    is_signed: bool,
    /// The position of the `final: true` of an applicable rule.
    final_rule: Option<String>,
    /// Whether the operator's lists apply; they do not apply to gRPC sidecars, on which they cannot be enforced.
    is_restricted: bool,
}

/// A list of allowed values of a policy.
struct AllowList<'a, T> {
    values: Vec<&'a T>,
    /// The name and position of the list, for errors.
    origin: String,
}

impl<'a> Resolver<'a> {
    fn of_module(
        identity: ModuleIdentity<'a>,
        yaml: Option<&'a HookYaml>,
        operator: Option<&'a OperatorPolicy>,
    ) -> Result<Self, ResolveError> {
        if let Some(place) = operator.and_then(|policy| policy.denial(identity.digest)) {
            return Err(ResolveError::Denied {
                place,
                digest: identity.digest.to_owned(),
            });
        }
        let rules = operator.map(|policy| applicable_rules(policy, &identity));
        let rules = rules.transpose()?.unwrap_or_default();
        Ok(Self {
            identity,
            yaml,
            operator,
            rules: rules.iter().map(|rule| &rule.allow).collect(),
            is_signed: rules.iter().any(|rule| rule.keys.is_some()),
            final_rule: operator.and_then(|policy| {
                let position = rules.iter().find_map(|rule| rule.final_position())?;
                Some(policy.at(position))
            }),
            is_restricted: true,
        })
    }

    /// The operator's list of one name: the lists of all applicable rules together; if none of the rules has
    /// this list, the list of the top-level `allow`. `None` if the policy has no such list.
    fn operator_list<T>(
        &self,
        name: &str,
        list: impl Fn(&'a Allow) -> Option<&'a WithPosition<Vec<T>>>,
    ) -> Option<AllowList<'a, T>> {
        let operator = self.operator.filter(|_| self.is_restricted)?;
        let mut lists: Vec<_> = self.rules.iter().filter_map(|allow| list(allow)).collect();
        if lists.is_empty() {
            lists.extend(
                operator
                    .content
                    .allow
                    .as_ref()
                    .and_then(|top| list(top.get())),
            );
        }
        let places: Vec<String> = lists
            .iter()
            .map(|list| operator.at(list.position()))
            .collect();
        (!lists.is_empty()).then(|| AllowList {
            values: lists.into_iter().flat_map(|list| list.get()).collect(),
            origin: format!("{name} of {}", places.join(" or ")),
        })
    }

    /// Like [`Self::operator_list`], but empty if the policy has no such list: for values that are denied unless the
    /// operator allows them.
    fn required_operator_list<T>(
        &self,
        name: &str,
        list: impl Fn(&'a Allow) -> Option<&'a WithPosition<Vec<T>>>,
    ) -> AllowList<'a, T> {
        self.operator_list(name, list).unwrap_or_else(|| {
            let policy = self.operator.map(|operator| operator.path.display());
            let no_policy =
                || "there is none: --hook-policy of a launcher or --policy of virt-hook names one";
            let place = policy.map_or_else(|| no_policy().to_owned(), |path| path.to_string());
            AllowList {
                values: Vec::new(),
                origin: format!("{name} of the operator's policy ({place})"),
            }
        })
    }

    /// The path of `hook.yaml` for errors.
    fn hook_yaml_place(&self) -> String {
        self.yaml.map_or_else(
            || "a hook.yaml beside the module (there is none)".to_owned(),
            |yaml| yaml.path.display().to_string(),
        )
    }
}

impl<T> AllowList<'_, T> {
    fn refuses(&self, what: &'static str, wish: &str) -> ResolveError {
        ResolveError::NotGranted {
            what,
            wish: wish.to_owned(),
            origin: self.origin.clone(),
        }
    }
}

/// The rules that apply to a module.
///
/// A rule applies if it names the module's digest and namespace and, if the rule has keys, one of the
/// keys signed the module, and not before the key's earliest date. If rules with keys name the module and none of them applies, the module may
/// not run, unless a rule without keys lists its digest: the operator has then allowed this very module.
fn applicable_rules<'a>(
    policy: &'a OperatorPolicy,
    module: &ModuleIdentity<'_>,
) -> Result<Vec<&'a Rule>, ResolveError> {
    let named = policy.rules(module.digest, module.namespace);
    let signer = module.signature.signer();
    let is_signer = |key: &SignerKey| {
        let made = signer.filter(|signer| signer.key == key.key.id());
        made.is_some_and(|signer| too_early(policy, signer, key).is_none())
    };
    let applies = |rule: &&Rule| {
        let mut signers = rule.signers();
        signers.as_mut().is_none_or(|keys| keys.any(is_signer))
    };
    let with_keys = || named.iter().filter(|rule| rule.keys.is_some());
    let is_listed = || {
        named
            .iter()
            .any(|rule| rule.keys.is_none() && rule.digests.is_some())
    };
    if let Some(keys) = with_keys().find_map(|rule| rule.keys.as_ref())
        && !with_keys().any(&applies)
        && !is_listed()
    {
        return Err(ResolveError::NotSigned {
            place: policy.at(keys.position()),
            reason: match signer.and_then(|signer| {
                let mut keys = with_keys().filter_map(|rule| rule.signers()).flatten();
                keys.find_map(|key| {
                    (signer.key == key.key.id()).then(|| too_early(policy, signer, key))?
                })
            }) {
                Some(too_early) => too_early,
                None => module.signature.reason().to_owned(),
            },
        });
    }
    Ok(named.into_iter().filter(applies).collect())
}

/// Why the signature of a key does not count because of the date in the module, if it does not.
fn too_early(policy: &OperatorPolicy, signer: &Signer, key: &SignerKey) -> Option<String> {
    const REMEDY: &str = "sign it again with `virt-hook sign --dated`, which changes its sha256";
    let not_before = key.not_before.as_ref()?;
    let wanted = format!(
        "{} wants signatures of this key from {} on",
        policy.at(not_before.position()),
        not_before.get()
    );
    match &signer.date {
        Ok(Some(date)) if date >= not_before.get() => None,
        Ok(Some(date)) => Some(format!("it was signed at {date}, and {wanted}: {REMEDY}")),
        Ok(None) => Some(format!("it has no date of signing, and {wanted}: {REMEDY}")),
        Err(reason) => Some(format!(
            "its date of signing cannot be read ({reason}), and {wanted}: {REMEDY}"
        )),
    }
}

impl Resolver<'_> {
    fn hook_points(&self) -> Result<Vec<Subscription>, ResolveError> {
        let declared = &self.identity.description.hook_points;
        let content = self.yaml.map(|yaml| &yaml.content);
        let priority = content.and_then(|content| content.priority.as_ref());
        let priority = priority.map(|priority| *priority.get());
        let mut points: Vec<Subscription> = declared
            .iter()
            .map(|subscription| Subscription {
                point: subscription.point,
                priority: priority.unwrap_or(subscription.priority),
            })
            .collect();
        if let Some((yaml, overrides)) = self.yaml.zip(content.and_then(|c| c.hook_points.as_ref()))
        {
            let mut chosen = Vec::new();
            for entry in overrides.get() {
                let point = HookPoint::from(*entry.name.get());
                let Some(subscription) = points.iter().find(|known| known.point == point) else {
                    let reason = format!("the module does not know the hook point {point}");
                    return Err(yaml.error_at(entry.name.position(), reason).into());
                };
                let priority = entry.priority.unwrap_or(subscription.priority);
                chosen.push(Subscription { point, priority });
            }
            points = chosen;
        }
        if let Some(allowed) =
            self.operator_list("allow.hookPoints", |allow| allow.hook_points.as_ref())
        {
            let is_allowed = |point| {
                allowed
                    .values
                    .iter()
                    .any(|allowed| HookPoint::from(**allowed) == point)
            };
            if let Some(refused) = points
                .iter()
                .find(|subscription| !is_allowed(subscription.point))
            {
                return Err(allowed.refuses("hook point", refused.point.name()));
            }
        }
        Ok(points)
    }
}

/// The origin of the wishes, in the terms of the SDKs: a module declares its wishes in the function `describe`.
const WISHES_ORIGIN: &str = "the paths that the module's `describe` declares";

impl Resolver<'_> {
    fn grant(&self) -> Result<Grant, ResolveError> {
        let owner = self.yaml.and_then(|yaml| {
            let paths = yaml.content.allow.paths.as_ref()?;
            Some(layer(
                paths.get(),
                format!("allow.paths of {}", yaml.at(paths.position())),
            ))
        });
        let dangerous = self
            .required_operator_list("allow.dangerous", |allow| allow.dangerous.as_ref())
            .layer();
        let operator = self
            .operator_list("allow.paths", |allow| allow.paths.as_ref())
            .map(|list| list.layer().or(&dangerous));
        let wishes = self.identity.description.wishes.as_ref();
        for wish in wishes.iter().flat_map(|wishes| &wishes.paths) {
            check_wish(wish, owner.iter().chain(&operator), &dangerous)?;
        }
        let declared = match wishes {
            Some(wishes) => Some(wishes_layer(wishes)),
            None if owner.is_some() => None,
            None => Some(Layer::new(
                Vec::new(),
                format!(
                    "{WISHES_ORIGIN} (it declares none), or allow.paths of {},",
                    self.hook_yaml_place()
                ),
            )),
        };
        // The wildcard matches every node except the dangerous set, whose granted part is already in the layer.
        let mut everything_permitted = dangerous;
        everything_permitted
            .paths
            .extend(ConditionedPath::parse("/domain/**"));
        // The operator's layers come first: a module's patterns, which can be expensive to match, are only matched
        // against changes that the operator permits.
        let layers = operator.into_iter().chain([everything_permitted]);
        Ok(Grant::new(layers.chain(owner).chain(declared).collect()))
    }
}

impl AllowList<'_, WithPosition<ConditionedPath>> {
    fn layer(self) -> Layer {
        let paths = self.values.iter().map(|path| path.get().clone());
        Layer::new(paths.collect(), self.origin)
    }
}

impl AllowList<'_, WithPosition<Dangerous>> {
    fn layer(self) -> Layer {
        let mut layer = Layer::new(Vec::new(), self.origin);
        for value in self.values {
            match value.get() {
                Dangerous::Path(path) => layer.paths.push(path.as_ref().clone()),
                Dangerous::Kind(kind) => layer.granted_dangers.push(*kind),
            }
        }
        layer
    }
}

fn layer(paths: &[WithPosition<ConditionedPath>], origin: String) -> Layer {
    let paths = paths.iter().map(|path| path.get().clone());
    Layer::new(paths.collect(), origin)
}

fn wishes_layer(wishes: &Wishes) -> Layer {
    Layer::new(wishes.paths_with_attributes(), WISHES_ORIGIN)
}

/// Checks that every layer allows at least a part of a wish. Layers may narrow a wish. A wish of which nothing is
/// left is refused now, and not when the VM boots.
fn check_wish<'a>(
    wish: &ConditionedPath,
    layers: impl Iterator<Item = &'a Layer>,
    dangerous: &'a Layer,
) -> Result<(), ResolveError> {
    let kinds = kinds_named(&wish.pattern, false);
    let overlaps = |layer: &Layer| {
        let mut paths = layer.paths.iter();
        paths.any(|path| overlap(path, wish))
            || (!kinds.is_empty()
                && kinds
                    .iter()
                    .all(|kind| layer.granted_dangers.contains(kind)))
    };
    let required = (!kinds.is_empty()).then_some(dangerous);
    match layers.chain(required).find(|layer| !overlaps(layer)) {
        None => Ok(()),
        Some(layer) => Err(ResolveError::NotGranted {
            what: "path",
            wish: wish.to_string(),
            origin: layer.origin.clone(),
        }),
    }
}

/// Whether some change may be permitted by both. Conditions that exclude each other leave nothing.
fn overlap(one: &ConditionedPath, other: &ConditionedPath) -> bool {
    let are_apart = match (&one.condition, &other.condition) {
        (Some(condition), Some(other)) => condition.excludes(other),
        _ => false,
    };
    let (one, other) = (&one.pattern, &other.pattern);
    !are_apart && (is_superset(one, other) || is_superset(other, one))
}

impl<'a> Resolver<'a> {
    fn config(&self) -> Result<BTreeMap<String, String>, ResolveError> {
        let Some(yaml) = self.yaml else {
            return Ok(BTreeMap::new());
        };
        let list = |allow: &'a Allow| allow.config.as_ref();
        // What a final hook enforces is for the operator to configure.
        let allowed = match self.final_rule {
            Some(_) => Some(self.required_operator_list("allow.config", list)),
            None => self.operator_list("allow.config", list),
        };
        let mut config = BTreeMap::new();
        for (key, value) in &yaml.content.config {
            if let Some(wishes) = &self.identity.description.wishes
                && !wishes.config.contains(key)
            {
                let declared = match &wishes.config[..] {
                    [] => "and no other".to_owned(),
                    keys => format!("only [{}]", keys.join(", ")),
                };
                let reason =
                    format!("the module does not read the configuration key {key:?}, {declared}");
                return Err(yaml.error_at(value.position(), reason).into());
            }
            if let Some(allowed) = &allowed
                && !allowed.values.contains(&key)
            {
                return Err(allowed.refuses("configuration key", key));
            }
            config.insert(key.clone(), value.get().clone());
        }
        Ok(config)
    }

    /// The granted directories. They belong to the launcher's container, so the operator must allow them; `hook.yaml`
    /// only narrows.
    fn dirs(&self) -> Result<Vec<PathBuf>, ResolveError> {
        let Some(wishes) = &self.identity.description.wishes else {
            return Ok(Vec::new());
        };
        let owner = self.yaml.and_then(|yaml| {
            let dirs = yaml.content.allow.dirs.as_ref()?;
            Some(AllowList {
                values: dirs.get().iter().collect(),
                origin: format!("allow.dirs of {}", yaml.at(dirs.position())),
            })
        });
        let operator = self.required_operator_list("allow.dirs", |allow| allow.dirs.as_ref());
        let layers: Vec<AllowList<'_, PathBuf>> =
            owner.into_iter().chain([operator]).map(paths).collect();
        let granted: Result<Vec<_>, _> = wishes
            .dirs
            .iter()
            .map(|wish| narrow(wish, &layers))
            .collect();
        Ok(granted?.concat())
    }

    /// The directories that the operator allows. `dirs` compares the texts of paths, and a directory can contain
    /// symbolic links that lead out of it, so a directory is checked against these roots again when it is opened.
    fn dir_roots(&self) -> Vec<PathBuf> {
        let operator = self.required_operator_list("allow.dirs", |allow| allow.dirs.as_ref());
        paths(operator).values.into_iter().cloned().collect()
    }
}

fn paths<'a>(list: AllowList<'a, WithPosition<Directory>>) -> AllowList<'a, PathBuf> {
    AllowList {
        values: list.values.into_iter().map(|dir| &dir.get().0).collect(),
        origin: list.origin,
    }
}

/// The directories within `wish` that all layers allow.
fn narrow(wish: &Path, layers: &[AllowList<'_, PathBuf>]) -> Result<Vec<PathBuf>, ResolveError> {
    let mut remaining = vec![wish.to_path_buf()];
    for layer in layers {
        let mut next = Vec::new();
        for dir in &remaining {
            for allowed in &layer.values {
                if dir.starts_with(allowed) {
                    next.push(dir.clone());
                } else if allowed.starts_with(dir) {
                    next.push((*allowed).clone());
                }
            }
        }
        if next.is_empty() {
            return Err(layer.refuses("directory", &wish.display().to_string()));
        }
        next.sort();
        next.dedup();
        remaining = next;
    }
    Ok(remaining)
}

impl Resolver<'_> {
    /// The parameters that the module declares. A parameter that the operator's policy does not allow is an error.
    fn migration(&self) -> Result<BTreeSet<MigrationParameter>, ResolveError> {
        let wishes = self.identity.description.wishes.iter();
        let allowed = self.operator_list("allow.migration", |allow| allow.migration.as_ref());
        let mut granted = BTreeSet::new();
        for wish in wishes.flat_map(|wishes| &wishes.migration) {
            if let Some(allowed) = &allowed
                && !allowed.values.contains(&wish)
            {
                return Err(allowed.refuses("parameter of a migration", wish.name()));
            }
            granted.insert(*wish);
        }
        Ok(granted)
    }

    /// The grant of facts. Annotations may contain secrets, so the operator must allow the facts that the module
    /// declares; `hook.yaml` only narrows. A wish that is not granted is no error here, because a hook may work without
    /// the fact: the question is denied when the hook asks.
    fn pod(&self) -> PodGrant {
        let wishes = self.identity.description.wishes.iter();
        let declared = PodLayer {
            patterns: wishes.flat_map(|wishes| wishes.pod.clone()).collect(),
            origin: "wishes.pod in its description".to_owned(),
        };
        let owner = self.yaml.and_then(|yaml| {
            let pod = yaml.content.allow.pod.as_ref()?;
            Some(AllowList {
                values: pod.get().iter().collect(),
                origin: format!("allow.pod of {}", yaml.at(pod.position())),
            })
        });
        let operator = self.required_operator_list("allow.pod", |allow| allow.pod.as_ref());
        let recorded = self.operator_list("allow.podRecords", |allow| allow.pod_records.as_ref());
        let lists = owner.into_iter().chain([operator]);
        PodGrant {
            layers: [declared].into_iter().chain(lists.map(pod_layer)).collect(),
            recorded: recorded
                .map(|list| pod_layer(list).patterns)
                .unwrap_or_default(),
        }
    }
}

fn pod_layer(list: AllowList<'_, PodPattern>) -> PodLayer {
    PodLayer {
        patterns: list.values.into_iter().cloned().collect(),
        origin: list.origin,
    }
}

impl Resolver<'_> {
    fn limits(&self, base: &Limits) -> Result<Limits, ResolveError> {
        let content = self.yaml.map(|yaml| &yaml.content);
        let caps = self.operator.map(|operator| &operator.content.limits);
        let size = |name,
                    set: Option<&WithPosition<SizeValue>>,
                    cap: Option<&WithPosition<SizeValue>>,
                    base| {
            let set = set.map(|set| (set.get().0, set.position()));
            self.limit(
                name,
                set,
                cap.map(|cap| (cap.get().0, cap.position())),
                base,
            )
        };
        let deadline = content.and_then(|c| c.deadline.as_ref());
        let deadline_cap = caps.and_then(|c| c.deadline.as_ref());
        Ok(Limits {
            call_deadline: self.limit(
                "deadline",
                deadline.map(|set| (set.get().0, set.position())),
                deadline_cap.map(|cap| (cap.get().0, cap.position())),
                base.call_deadline,
            )?,
            memory: size(
                "memory",
                content.and_then(|c| c.memory.as_ref()),
                caps.and_then(|c| c.memory.as_ref()),
                base.memory,
            )?,
            output: size(
                "output",
                content.and_then(|c| c.output.as_ref()),
                caps.and_then(|c| c.output.as_ref()),
                base.output,
            )?,
            log: size(
                "log",
                content.and_then(|c| c.log.as_ref()),
                caps.and_then(|c| c.log.as_ref()),
                base.log,
            )?,
            ..base.clone()
        })
    }

    /// The value `set` in `hook.yaml`, else the default `base`. A cap of the operator's policy lowers the default, and
    /// refuses a higher value of `hook.yaml`.
    fn limit<T: Ord + Copy + std::fmt::Debug>(
        &self,
        name: &str,
        set: Option<(T, YamlPosition)>,
        cap: Option<(T, YamlPosition)>,
        base: T,
    ) -> Result<T, ResolveError> {
        let (Some((cap, cap_position)), Some(operator)) = (cap, self.operator) else {
            return Ok(set.map_or(base, |(value, _)| value));
        };
        let Some(((value, position), yaml)) = set.zip(self.yaml) else {
            return Ok(base.min(cap));
        };
        if value <= cap {
            return Ok(value);
        }
        let reason = format!(
            "{name} is {value:?} and may be {cap:?} at most, as {} says",
            operator.at(cap_position)
        );
        Err(yaml.error_at(position, reason).into())
    }

    fn failure_policy(&self) -> Result<FailurePolicy, ResolveError> {
        let requested = self
            .yaml
            .and_then(|y| Some((y, y.content.failure_policy.as_ref()?)));
        let Some((yaml, requested)) = requested else {
            return Ok(FailurePolicy::Fail);
        };
        let operator = self
            .operator
            .and_then(|o| Some((o, o.content.failure_policies.as_ref()?)));
        if let Some((operator, allowed)) = operator
            && !allowed.get().contains(requested.get())
        {
            let reason = format!(
                "the failure policy {:?} is not among the failurePolicies of {}",
                requested.get(),
                operator.at(allowed.position())
            );
            return Err(yaml.error_at(requested.position(), reason).into());
        }
        Ok(*requested.get())
    }

    fn check_digest(&self) -> Result<(), ResolveError> {
        let digest = self.identity.digest;
        let pin = self
            .yaml
            .and_then(|yaml| Some((yaml, yaml.content.sha256.as_ref()?)));
        if let Some((yaml, pin)) = pin
            && pin.get().0 != digest
        {
            return Err(ResolveError::Digest {
                place: yaml.at(pin.position()),
                expected: pin.get().0.clone(),
                actual: digest.to_owned(),
            });
        }
        let Some(operator) = self.operator else {
            return Ok(());
        };
        let Some(digests) = &operator.content.digests else {
            return Ok(());
        };
        let is_listed = || operator.lists_digest(digest, self.identity.namespace) || self.is_signed;
        let (is_allowed, condition) = match digests.get() {
            Digests::Any => (true, ""),
            Digests::Pinned => (
                pin.is_some() || is_listed(),
                "their sha256 stands in their hook.yaml or in a rule of this policy for the VM's \
                 namespace, or a key of such a rule signed them",
            ),
            Digests::Listed => (
                is_listed(),
                "their sha256 stands in a rule of this policy for the VM's namespace, or a key of \
                 such a rule signed them",
            ),
        };
        if is_allowed {
            return Ok(());
        }
        Err(ResolveError::UnknownDigest {
            place: operator.at(digests.position()),
            condition,
            digest: digest.to_owned(),
        })
    }
}

/// Resolves the settings of a gRPC sidecar, which runs unrestricted or not at all.
pub(crate) fn resolve_sidecar(
    hook_points: Vec<Subscription>,
    base: &Limits,
    yaml: Option<&HookYaml>,
    operator: Option<&OperatorPolicy>,
) -> Result<EffectiveSettings, ResolveError> {
    if let Some(operator) = operator
        && let Some(sidecars) = &operator.content.sidecars
        && *sidecars.get() == Sidecars::Forbid
    {
        return Err(ResolveError::Sidecar {
            place: operator.at(sidecars.position()),
        });
    }
    if let Some((yaml, (key, position))) =
        yaml.and_then(|yaml| Some((yaml, yaml.content.first_module_only_key()?)))
    {
        let reason = format!("{key} is for modules: a gRPC sidecar cannot be restricted");
        return Err(yaml.error_at(position, reason).into());
    }
    let description = Description {
        hook_points,
        ..Description::default()
    };
    let resolver = Resolver {
        identity: ModuleIdentity {
            digest: "",
            namespace: "",
            signature: &ModuleSignature::default(),
            description: &description,
        },
        yaml,
        operator,
        rules: Vec::new(),
        is_signed: false,
        final_rule: None,
        is_restricted: false,
    };
    Ok(EffectiveSettings {
        hook_points: resolver.hook_points()?,
        final_rule: None,
        failure_policy: resolver.failure_policy()?,
        limits: base.clone(),
        config: BTreeMap::new(),
        dirs: Vec::new(),
        dir_roots: Vec::new(),
        migration: BTreeSet::new(),
        pod: Arc::default(),
        grant: Grant::unlimited(),
    })
}

/// Why a hook may not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// A line of `hook.yaml` contradicts the module or the operator's policy.
    #[error(transparent)]
    Line(#[from] PolicyError),
    /// The module's digest is not the pinned one.
    #[error("{place}: the module has the sha256 {actual}, not {expected}")]
    Digest {
        /// File, line and column of the pinned digest.
        place: String,
        /// The pinned digest.
        expected: String,
        /// The module's digest.
        actual: String,
    },
    /// The operator's policy requires a known digest.
    #[error("{place}: modules run only when {condition}; this one has the sha256 {digest}")]
    UnknownDigest {
        /// File, line and column in the policy.
        place: String,
        /// The condition for running, such as that a rule lists the digest.
        condition: &'static str,
        /// The module's digest.
        digest: String,
    },
    /// The operator's policy denies the module, whatever else permits it.
    #[error(
        "{place}: the operator denies the module with the sha256 {digest}, whatever else permits it: use another build"
    )]
    Denied {
        /// File, line and column in the policy.
        place: String,
        /// The module's digest.
        digest: String,
    },
    /// The operator's policy requires a signature.
    #[error(
        "{place}: modules that this rule names run only if one of its keys signed them: {reason}"
    )]
    NotSigned {
        /// The position of the rule's keys.
        place: String,
        /// Why the module counts as unsigned.
        reason: String,
    },
    /// The operator forbids gRPC sidecars.
    #[error("{place}: gRPC sidecars are forbidden")]
    Sidecar {
        /// File, line and column in the policy.
        place: String,
    },
    /// The module declares a wish that is not granted.
    #[error("it wants the {what} {wish:?}, {}", remedy(wish, origin))]
    NotGranted {
        /// `path`, `directory`, `configuration key`, `hook point` or `parameter of a migration`.
        what: &'static str,
        /// The wish.
        wish: String,
        /// The list that would have to contain the wish.
        origin: String,
    },
}

/// The remedy for a wish. A path that is probably misspelt should not be added to a policy.
fn remedy(wish: &str, origin: &str) -> String {
    let domain_path = Some(wish).filter(|wish| wish.starts_with("/domain"));
    match domain_path.and_then(UnknownPath::of) {
        None => format!("which {origin} does not allow: add it there"),
        Some(unknown) => {
            format!("and {unknown} If the path is right, add it to {origin}")
        }
    }
}

impl ResolveError {
    /// Whether a policy refuses the module or one of its wishes; otherwise a file has a mistake.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::UnknownDigest { .. }
            | Self::Denied { .. }
            | Self::NotSigned { .. }
            | Self::Sidecar { .. }
            | Self::NotGranted { .. } => true,
            Self::Line(_) | Self::Digest { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests;
