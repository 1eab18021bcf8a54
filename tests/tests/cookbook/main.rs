//! The recipes of docs/rust.md: each does what its text says, changes nothing when it runs again, needs only the wishes
//! that the page lists, and makes a domain that libvirt's schema accepts. The recipes in other languages have the same
//! effects.
#![allow(clippy::unwrap_used)]

mod cloud_init;
mod configured_hook;
mod devices;
mod languages;
mod resources;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use domain_xml::{Document, PathPattern, diff};
use hook_host::policy::permission::{Checker, Permission};
use hooks_sdk::host::native;
use hooks_sdk::{CloudInit, Domain, Result, Vmi};
use serde_json::{Value, json};
use tests::binaries::workspace;
use tests::build_and_install_hooks as hooks;
use tests::not_tested::{Missing, not_tested};

const SCHEMA: &str = "/usr/share/libvirt/schemas/domain.rng";

/// A recipe that changes the domain.
struct DomainRecipe {
    name: &'static str,
    run: fn(&Vmi, &mut Domain) -> Result,
    /// Paths, which begin with `/`, and facts about the pod.
    wishes: &'static [&'static str],
    /// A path, and its value afterwards.
    effect: (&'static str, &'static str),
}

macro_rules! recipes {
    ($($module:ident::$name:ident { $($wish:literal),+ } => $path:literal = $value:literal;)+) => {
        const DOMAIN_RECIPES: &[DomainRecipe] = &[$(DomainRecipe {
            name: stringify!($name),
            run: $module::$name,
            wishes: &[$($wish),+],
            effect: ($path, $value),
        }),+];
    };
}

recipes! {
    devices::usb_device {
        "/domain/devices/hostdev[@type='usb']/**",
        "/domain/devices/controller[@type='usb']/@model"
    } => "devices/hostdev[@type='usb']/source/product/@id" = "0x0825";
    devices::pci_device {
        "/domain/devices/hostdev[@type='pci']/**"
    } => "devices/hostdev[@type='pci']/source/address/@bus" = "0x3b";
    devices::vgpu_display {
        "/domain/devices/hostdev[@type='mdev']/@display",
        "/domain/devices/hostdev[@type='mdev']/@ramfb",
        "/domain/devices/video/model/**"
    } => "devices/hostdev[@type='mdev']/@display" = "on";
    devices::shared_memory {
        "/domain/devices/shmem/**",
        "/domain/devices/shmem/@name"
    } => "devices/shmem/size" = "4";
    devices::watchdog { "/domain/devices/watchdog/**" } => "devices/watchdog/@action" = "reset";
    devices::tpm { "/domain/devices/tpm/**" } => "devices/tpm/backend/@version" = "2.0";
    devices::second_serial_port { "/domain/devices/serial/**" } => "devices/serial[target/@port='1']/@type" = "null";
    devices::vnc_keymap { "/domain/devices/graphics/@keymap" } => "devices/graphics/@keymap" = "de";
    resources::pinning_and_numa {
        "/domain/cputune/**",
        "/domain/numatune/**"
    } => "cputune/vcpupin[@vcpu='1']/@cpuset" = "5";
    resources::huge_pages { "/domain/memoryBacking/**" } => "memoryBacking/hugepages/page/@size" = "2";
    resources::disk_queues_and_io_thread {
        "/domain/iothreads",
        "/domain/devices/disk/driver/@queues",
        "/domain/devices/disk/driver/@iothread"
    } => "devices/disk[target/@dev='vda']/driver/@queues" = "2";
    resources::interface_queues { "/domain/devices/interface/driver/**" } => "devices/interface/driver/@queues" = "2";
    resources::interface_model { "/domain/devices/interface/model/@type" } => "devices/interface/model/@type" = "e1000e";
    resources::cpu_features { "/domain/cpu/feature/**" } => "cpu/feature[@name='invtsc']/@policy" = "require";
    resources::hide_kvm {
        "/domain/features/kvm/**",
        "/domain/cpu/feature/**"
    } => "features/kvm/hidden/@state" = "on";
    resources::board_serial_number {
        "/domain/os/smbios/**",
        "/domain/sysinfo/baseBoard/**"
    } => "sysinfo[@type='smbios']/baseBoard/entry[@name='serial']" = "6b3e";
    resources::firmware_configuration { "/domain/sysinfo[@type='fwcfg']/**" }
        => "sysinfo[@type='fwcfg']/entry[@name='opt/com.example/role']" = "database";
    resources::qemu_arguments { "/domain/qemu:commandline/**" }
        => "qemu:commandline/qemu:arg[2]/@value" = "ICH9-LPC.disable_s3=1";
    resources::not_on_a_migration_target { "/domain/devices/input/**" }
        => "devices/input[@type='keyboard']/@bus" = "virtio";
    resources::disk_limit_of_the_pod {
        "/domain/devices/disk/iotune/**",
        "annotations/example.com/disk-iops"
    } => "devices/disk[target/@dev='vda']/iotune/total_iops_sec" = "500";
}

const DISK_LIMIT: (&str, &str) = ("example.com/disk-iops", "500");

/// Gives the native pod the facts that a recipe wishes for, and no others.
fn set_pod(wishes: &[&str]) {
    native::reset();
    let (key, value) = DISK_LIMIT;
    if wishes.contains(&format!("annotations/{key}").as_str()) {
        native::set_pod_annotation(key, value);
    }
    if wishes.contains(&"network-status/infra/lab") {
        native::set_network_status(hooks::NETWORK_STATUS);
    }
}

/// A VMI that asks for everything that the recipes read.
fn vmi() -> Vmi {
    Vmi::new(vmi_json("").to_string())
}

/// The same, with a recipe's name for modules that have them all.
fn vmi_json(recipe: &str) -> Value {
    vmi_with(recipe, "recipe", recipe)
}

/// The same, with another value of an annotation.
fn vmi_with(recipe: &str, annotation: &str, value: &str) -> Value {
    let mut annotations = json!({
        "example.com/usb": "046d:0825",
        "example.com/pci": "0000:3b:00.0",
        "example.com/shared-memory": "between-vms",
        "example.com/pin-to": "4,5",
        "example.com/ops-key": "ssh-ed25519 AAAA ops",
        "recipe": recipe,
    });
    annotations[annotation] = value.into();
    json!({
        "metadata": {"name": "vm", "namespace": "ns", "uid": "6b3e", "annotations": annotations},
        "spec": {"domain": {
            "cpu": {"cores": 2},
            "devices": {
                "gpus": [{"name": "gpu1", "deviceName": "nvidia.com/vgpu"}],
                "interfaces": [{"name": "default", "masquerade": {}}],
                "networkInterfaceMultiqueue": true,
            },
        }},
        "status": {"nodeName": "node01"},
    })
}

/// KubeVirt's domain of a typical VM, with the vGPU that the VMI asks for.
fn domain() -> String {
    let corpus = workspace().join("tests/corpus/vmi-to-domain-xml/typical-fedora.xml");
    let gpu = "<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source>\
        <address uuid='c2177883-f1bb-47f0-914d-32a22e3a8804'/></source><alias name='ua-gpu-gpu1'/></hostdev></devices>";
    fs::read_to_string(corpus)
        .unwrap()
        .replace("</devices>", gpu)
}

/// A domain without a display of its own, whose interface has another name than in the VMI, and that has a second USB
/// controller, which is what a recipe makes of the first.
fn unusual_domain() -> String {
    let whole = domain();
    let (before, video) = whole.split_once("<video>").unwrap();
    let (_, after) = video.split_once("</video>").unwrap();
    let second = "<controller type='usb' index='1' model='qemu-xhci'/></devices>";
    let unusual = format!("{before}{after}")
        .replace("ua-default", "ua-storage")
        .replace("</devices>", second);
    assert!(unusual.contains("ua-storage"), "the interface has no alias");
    unusual
}

/// A VMI without multiqueue, for whose interfaces virt-handler makes tap devices with one queue.
fn single_queue_vmi(recipe: &str) -> Value {
    let mut vmi = vmi_json(recipe);
    vmi["spec"]["domain"]["devices"]["networkInterfaceMultiqueue"] = false.into();
    vmi
}

/// A VMI with one vCPU, for which virt-handler does the same.
fn single_cpu_vmi(recipe: &str) -> Value {
    let mut vmi = vmi_json(recipe);
    vmi["spec"]["domain"]["cpu"]["cores"] = 1.into();
    vmi
}

#[test]
fn interfaces_get_queues_only_where_their_tap_devices_have_them() {
    for vmi in [single_queue_vmi(""), single_cpu_vmi("")] {
        let mut edited = Domain::parse(domain()).unwrap();
        resources::interface_queues(&Vmi::new(vmi.to_string()), &mut edited).unwrap();
        assert_eq!(edited.render(), domain(), "{vmi}");
    }
}

#[test]
fn each_recipe_works_with_the_wishes_of_its_page() {
    let (mut refused, mut unused) = (Vec::new(), Vec::new());
    for recipe in DOMAIN_RECIPES {
        let parse = |xml: &str| Document::parse(xml).unwrap();
        // KubeVirt writes <smbios> on amd64 only.
        let elsewhere = domain().replace("<smbios mode=\"sysinfo\"></smbios>", "");
        assert_ne!(elsewhere, domain());
        let edits = [domain(), elsewhere].map(|xml| (parse(&xml), changed(recipe, &xml)));
        for (_, after) in &edits {
            let (path, value) = recipe.effect;
            let found = Domain::parse(&**after).unwrap().value(path).unwrap();
            assert_eq!(found.as_deref(), Some(value), "{}: {path}", recipe.name);
        }
        let mut edits = edits
            .map(|(before, after)| (before, parse(&after)))
            .to_vec();
        let unusual = unusual_domain();
        edits.push((parse(&unusual), parse(&changed(recipe, &unusual))));
        let wishes: Vec<PathPattern> = recipe
            .wishes
            .iter()
            .filter(|wish| wish.starts_with('/'))
            .map(|wish| wish.parse().unwrap())
            .collect();
        let refusal = |wishes: &[PathPattern]| {
            edits.iter().find_map(|(before, after)| {
                let mut checker = Checker::new(wishes, before, after);
                let changes = diff(before, after);
                changes
                    .iter()
                    .find_map(|change| match checker.permits(change) {
                        Permission::Refused(refusal) => {
                            Some(format!("{}: {refusal:?}", recipe.name))
                        }
                        Permission::Granted { .. } => None,
                    })
            })
        };
        refused.extend(refusal(&wishes));
        for index in 0..wishes.len() {
            let mut fewer = wishes.clone();
            let left_out = fewer.remove(index);
            if refusal(&fewer).is_none() {
                unused.push(format!("{}: {left_out:?}", recipe.name));
            }
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
    assert!(unused.is_empty(), "{unused:#?}");
}

#[test]
fn a_second_run_changes_nothing() {
    for recipe in DOMAIN_RECIPES {
        for xml in [domain(), unusual_domain()] {
            let once = changed(recipe, &xml);
            assert_eq!(changed(recipe, &once), once, "{}", recipe.name);
        }
    }
}

fn changed(recipe: &DomainRecipe, xml: &str) -> String {
    set_pod(recipe.wishes);
    let mut domain = Domain::parse(xml).unwrap();
    (recipe.run)(&vmi(), &mut domain).unwrap_or_else(|error| panic!("{}: {error}", recipe.name));
    domain.render()
}

/// A recipe, its annotation, the form that a refusal names, and values that are refused.
struct NumbersOfDevice {
    recipe: &'static str,
    annotation: &'static str,
    form: &'static str,
    wrong: &'static [&'static str],
    /// Other ways to write the value of [`vmi_json`].
    right: &'static [&'static str],
}

const NUMBERS_OF_DEVICES: &[NumbersOfDevice] = &[
    NumbersOfDevice {
        recipe: "usb_device",
        annotation: "example.com/usb",
        form: "VENDOR:PRODUCT",
        wrong: &[
            "",
            ":",
            "046d",
            "46d:0825",
            "046d:08255",
            "046g:0825",
            "046d:0x",
            "0x046d0825",
            "046d:0825:",
            " 046d:0825",
            "046d:'/><",
            "046d:08\u{e9}",
        ],
        right: &["0x046d:0x0825", "046d:0x0825", "046D:0825"],
    },
    NumbersOfDevice {
        recipe: "pci_device",
        annotation: "example.com/pci",
        form: "DOMAIN:BUS:SLOT.FUNCTION",
        wrong: &[
            "",
            "3b:00.0",
            "0000:3b:00",
            "0000:3b:00.",
            "0000:3b:00.00",
            "0000:3b:0g.0",
            "0000:3b:00.0.0",
            "0000:3b:00.'",
        ],
        right: &["0000:3B:00.0"],
    },
];

/// The texts are those of the recipes in other languages.
fn refused_numbers(numbers: &NumbersOfDevice, message: &str, value: &str) {
    let NumbersOfDevice {
        annotation, form, ..
    } = numbers;
    let begin = format!("the annotation {annotation} is {form}, ");
    let is_said = message.starts_with(&begin) && message.ends_with(&format!(", and not {value}"));
    assert!(
        is_said && message.contains("hexadecimal digits"),
        "{message}"
    );
}

#[test]
fn numbers_of_devices_are_hexadecimal() {
    for numbers in NUMBERS_OF_DEVICES {
        let recipe = DOMAIN_RECIPES
            .iter()
            .find(|recipe| recipe.name == numbers.recipe);
        let recipe = recipe.unwrap();
        let run = |value: &str| {
            let vmi = vmi_with("", numbers.annotation, value).to_string();
            let mut edited = Domain::parse(domain()).unwrap();
            (recipe.run)(&Vmi::new(vmi), &mut edited).map(|()| edited.render())
        };
        for value in numbers.wrong {
            let error = run(value).unwrap_err();
            assert!(error.is_veto(), "{value:?}: {error}");
            refused_numbers(numbers, &error.to_string(), value);
        }
        for value in numbers.right {
            let edited = run(value).unwrap_or_else(|error| panic!("{value}: {error}"));
            assert_eq!(edited, changed(recipe, &domain()), "{value}");
        }
    }
}

#[test]
fn the_domains_are_valid() {
    if !Path::new(SCHEMA).is_file() {
        let missing = Missing::Installable("libvirt's schemas");
        return not_tested("the recipes' domains", missing).unwrap();
    }
    let temp_dir = tempfile::tempdir().unwrap();
    let mut xmllint = Command::new("xmllint");
    xmllint.args(["--noout", "--relaxng", SCHEMA]);
    for recipe in DOMAIN_RECIPES {
        let mut domain = Domain::parse(changed(recipe, &domain())).unwrap();
        // Empty sysinfo tables, which KubeVirt writes and libvirt accepts, but the schema refuses.
        for sysinfo in domain.children_mut().filter(|child| child.is("sysinfo")) {
            sysinfo
                .remove_children(|table| !table.is("entry") && table.children().next().is_none());
        }
        let file = temp_dir.path().join(recipe.name);
        fs::write(&file, domain.render()).unwrap();
        xmllint.arg(file);
    }
    let output = xmllint.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
}

fn all_wishes() -> impl Iterator<Item = &'static &'static str> {
    let of_domains = DOMAIN_RECIPES.iter().flat_map(|recipe| recipe.wishes);
    of_domains.chain(CLOUD_INIT_RECIPES.iter().flat_map(|recipe| recipe.wishes))
}

#[test]
fn the_page_lists_each_recipe_with_its_wishes() {
    let page = fs::read_to_string(workspace().join("docs/rust.md")).unwrap();
    let code: BTreeSet<&str> = page.split('`').collect();
    let (_, page_imports) = page.split_once("`use hooks_sdk::{").unwrap();
    let (page_imports, _) = page_imports.split_once("};").unwrap();
    let page_imports: Vec<&str> = page_imports.split(", ").collect();
    for recipe in DOMAIN_RECIPES {
        assert!(
            page.contains(&format!("fn {}(", recipe.name)),
            "{}",
            recipe.name
        );
    }
    for wish in all_wishes() {
        assert!(code.contains(wish), "{wish}");
    }
    for source in ["cloud_init", "devices", "resources"] {
        let path = format!("tests/tests/cookbook/{source}.rs");
        let source = fs::read_to_string(workspace().join(path)).unwrap();
        for function in source
            .lines()
            .filter_map(|line| line.strip_prefix("pub(crate) "))
        {
            assert!(page.contains(function), "the page lacks {function}");
        }
        let imports = source
            .lines()
            .find_map(|line| line.strip_prefix("use hooks_sdk::{")?.strip_suffix("};"));
        for name in imports.unwrap().split(", ") {
            assert!(
                page_imports.contains(&name),
                "the page does not import {name}"
            );
        }
    }
}

/// A recipe that changes cloud-init data.
struct CloudInitRecipe {
    name: &'static str,
    run: fn(&Vmi, &mut CloudInit) -> Result,
    /// Facts about the pod.
    wishes: &'static [&'static str],
    /// A document, and a part of it afterwards.
    effect: (&'static str, &'static str),
}

macro_rules! cloud_init_recipes {
    ($($name:ident { $($wish:literal),* } => $document:literal: $part:literal;)+) => {
        const CLOUD_INIT_RECIPES: &[CloudInitRecipe] = &[$(CloudInitRecipe {
            name: stringify!($name),
            run: cloud_init::$name,
            wishes: &[$($wish),*],
            effect: ($document, $part),
        }),+];
    };
}

cloud_init_recipes! {
    packages {} => "user-data": "\"qemu-guest-agent\"";
    user {} => "user-data": "ssh-ed25519 AAAA ops";
    network {} => "network-data": "mtu: 1400";
    where_it_runs {} => "user-data": "node=node01";
    address_of_the_pod { "network-status/infra/lab" } => "network-data": "192.0.2.10/24";
}

fn documents() -> Vec<(String, String)> {
    let documents = [
        ("user-data", "#cloud-config\n# mine\npackages: [vim]\n"),
        ("network-data", "# ours\nversion: 2\n"),
    ];
    documents
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .to_vec()
}

fn with_recipe(recipe: &CloudInitRecipe, documents: Vec<(String, String)>) -> CloudInit {
    set_pod(recipe.wishes);
    let mut cloud_init = CloudInit::new("noCloud", documents);
    (recipe.run)(&vmi(), &mut cloud_init)
        .unwrap_or_else(|error| panic!("{}: {error}", recipe.name));
    cloud_init
}

#[test]
fn cloud_init_recipes_keep_what_the_user_wrote() {
    for recipe in CLOUD_INIT_RECIPES {
        let cloud_init = with_recipe(recipe, documents());
        let (document, expected) = recipe.effect;
        let found = cloud_init.document(document).unwrap();
        assert!(found.contains(expected), "{found}");
        assert!(
            found.contains("# mine") || found.contains("# ours"),
            "{found}"
        );
        let once = cloud_init.into_documents();
        let twice = with_recipe(recipe, once.clone()).into_documents();
        assert_eq!(twice, once, "{}: a second run changes it", recipe.name);
    }
}
