//! VMIs generated from a VMI with every field: each field is removed, kept or set to an extreme value.

use domain::cloud_init;
use domain::convert::{block_size_lookups, convert};
use domain::disk_expansion::image_expansions;
use domain::domain_spec_from_xml::parse;
use domain::domain_spec_to_xml::render;
use domain::guest_agent_access_credentials::{GuestCredentials, agent_credentials};
use domain::host_facts::HostFacts;
use domain::hotplug_ports::DefinitionPlan;
use domain::pod_network_and_dhcp::taps;
use domain::required_files::required_files;
use domain::resource_claims::claimed_requests;
use domain::secret_source;
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;
use proptest::prelude::*;
use serde_json::{Value, json};

const VMI: &str = include_str!("every_field.vmi.json");
const OPTIONS: &str = include_str!("every_field.options.json");
const HOST: &str = include_str!("every_field.host.json");

/// Random numbers for the choice of edits (xorshift; proptest chooses the seed).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    fn pick<'a, T>(&mut self, values: &'a [T]) -> &'a T {
        let index = self.roll(u64::try_from(values.len()).unwrap());
        &values[usize::try_from(index).unwrap()]
    }
}

const WORDS: [&str; 14] = [
    "",
    "auto",
    "shared",
    "virtio",
    "scsi",
    "-1",
    "0",
    "1m",
    "9223372036854775807",
    "9999999999999999999Ei",
    "-8Ei",
    "0000:00:00.0",
    "<&\"'\u{0}\u{1}\r\n\t]]>",
    "é\u{202e}\u{ffff}",
];
const NUMBERS: [u64; 10] = [
    0,
    1,
    2,
    255,
    65_535,
    1 << 31,
    u32::MAX as u64,
    1 << 53,
    i64::MAX as u64,
    u64::MAX,
];

/// Changes about one field in `rarity` to an extreme value, and removes about one in three times `rarity`.
fn mutate(value: &mut Value, dice: &mut Dice, rarity: u64) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, _| !dice.one_in(rarity * 3));
            fields
                .values_mut()
                .for_each(|field| mutate(field, dice, rarity));
        }
        Value::Array(elements) => {
            if dice.one_in(rarity * 2) {
                let copies = elements.clone();
                elements.extend(copies);
            }
            elements.retain(|_| !dice.one_in(rarity * 3));
            elements
                .iter_mut()
                .for_each(|element| mutate(element, dice, rarity));
        }
        leaf if dice.one_in(rarity) => *leaf = extreme_value(leaf, dice),
        _ => {}
    }
}

fn extreme_value(leaf: &Value, dice: &mut Dice) -> Value {
    match leaf {
        Value::Bool(value) => json!(!value),
        Value::Number(_) if dice.one_in(6) => json!(-1),
        Value::Number(_) => json!(dice.pick(&NUMBERS)),
        Value::String(_) if dice.one_in(12) => json!("x".repeat(5000)),
        _ => json!(dice.pick(&WORDS)),
    }
}

fn parse_mutated(text: &str, dice: &mut Dice, rarity: u64) -> Value {
    let mut value: Value = serde_json::from_str(text).unwrap();
    mutate(&mut value, dice, rarity);
    value
}

/// Calls every function of this crate that takes a VMI.
fn run_all(vmi: &Value, options: Value, host: Value) -> Result<(), String> {
    let vmi = Vmi::from_json(vmi.to_string().as_bytes()).map_err(|error| error.to_string())?;
    let options: Options = serde_json::from_value(options).map_err(|error| error.to_string())?;
    let host: HostFacts = serde_json::from_value(host).map_err(|error| error.to_string())?;
    let _ = taps(&vmi, &options);
    let _ = block_size_lookups(&vmi, &options, &host);
    let _ = cloud_init::read(&vmi, &NoSecrets);
    let spec = convert(&vmi, &options, &host).map_err(|error| error.to_string())?;
    let _ = required_files(domain::convert::Purpose::Boot, &vmi, &spec, &host);
    for expansion in image_expansions(&vmi, &host, &spec) {
        let sizes = [None, Some(0), Some(u64::MAX)].map(|usable| expansion.size(usable));
        assert!(sizes[1].is_none() && sizes[2] == sizes[0], "{expansion:?}");
    }
    let _ = GuestCredentials::read(&agent_credentials(&vmi), &NoSecrets);
    let _ = claimed_requests(&vmi);
    let xml = render(&spec);
    parse(&xml).expect("rendered XML can be parsed");
    if let Ok(definition) = DefinitionPlan::plan(&vmi, xml) {
        let second = definition.second(definition.first());
        if let Some(second) = second.expect("the first definition can be parsed") {
            parse(&second).expect("the second definition can be parsed");
        }
    }
    Ok(())
}

struct NoSecrets;

impl secret_source::SecretSource for NoSecrets {
    fn file(&self, _: &str, _: &str) -> Result<Option<Vec<u8>>, secret_source::SecretError> {
        Ok(None)
    }
    fn names(&self, _: &str) -> Result<Vec<String>, secret_source::SecretError> {
        Ok(Vec::new())
    }
}

#[test]
fn vmi_with_every_field_converts() {
    let parse_json = |text| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(
        run_all(&parse_json(VMI), parse_json(OPTIONS), parse_json(HOST)),
        Ok(())
    );
}

/// The generated VMIs must not all be invalid. With rare changes, enough of them convert.
#[test]
fn some_generated_vmis_convert() {
    let converted = (1..500_u64).filter(|seed| {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let vmi = parse_mutated(VMI, &mut dice, 200);
        run_all(
            &vmi,
            parse_mutated(OPTIONS, &mut dice, 200),
            parse_mutated(HOST, &mut dice, 400),
        )
        .is_ok()
    });
    assert!(converted.count() > 20);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1500) })]

    #[test]
    fn generated_vmis_do_not_panic(seed in 1_u64.., rarity in prop::sample::select(vec![3_u64, 10, 40, 160])) {
        let mut dice = Dice(seed);
        let vmi = parse_mutated(VMI, &mut dice, rarity);
        let _ = run_all(&vmi, parse_mutated(OPTIONS, &mut dice, rarity * 2), parse_mutated(HOST, &mut dice, rarity * 2));
    }
}

fn vmi_with_disks(count: usize, bus: &str) -> Value {
    let names = (0..count).map(|disk| format!("d{disk}"));
    let disks: Vec<_> = names
        .clone()
        .map(|name| json!({"name": name, "disk": {"bus": bus}}))
        .collect();
    let volumes: Vec<_> = names
        .map(|name| json!({"name": name, "emptyDisk": {"capacity": "1Mi"}}))
        .collect();
    json!({"metadata": {"name": "vm"}, "spec": {"volumes": volumes, "domain": {"devices": {"disks": disks}}}})
}

/// Converts a VMI with this number of disks, and returns the number of different target names.
fn convert_disks(count: usize) -> Result<usize, String> {
    let vmi = Vmi::from_json(vmi_with_disks(count, "virtio").to_string().as_bytes()).unwrap();
    let spec = convert(&vmi, &Options::default(), &HostFacts::default())
        .map_err(|error| error.to_string())?;
    let disks = spec.devices.disks.iter();
    let names: std::collections::HashSet<_> = disks.map(|disk| &disk.target.device).collect();
    Ok(names.len())
}

#[test]
fn disks_above_the_limit_are_an_error() {
    assert_eq!(convert_disks(4096), Ok(4096));
    assert_eq!(
        convert_disks(10_000),
        Err("spec.domain.devices.disks has 10000 disks, more than 4096".into())
    );
}
