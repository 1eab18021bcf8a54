//! Tests that recipes accept device IDs in every usual notation, and refuse other values.

use hooks_sdk::{Domain, Vmi};

use crate::edited_by_recipe;
use crate::recipe_inputs::{domain, vmi_with};
use crate::recipe_table::DOMAIN_RECIPES;

/// Values of an annotation that has a device ID.
pub(crate) struct DeviceIdCases {
    pub(crate) recipe: &'static str,
    pub(crate) annotation: &'static str,
    /// The format that the refusal names.
    pub(crate) form: &'static str,
    pub(crate) invalid: &'static [&'static str],
    /// Values that denote the same device as the value in [`vmi_json`].
    pub(crate) valid: &'static [&'static str],
}

pub(crate) const DEVICE_ID_CASES: &[DeviceIdCases] = &[
    DeviceIdCases {
        recipe: "usb_device",
        annotation: "example.com/usb",
        form: "VENDOR:PRODUCT",
        invalid: &[
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
        valid: &["0x046d:0x0825", "046d:0x0825", "046D:0825"],
    },
    DeviceIdCases {
        recipe: "pci_device",
        annotation: "example.com/pci",
        form: "DOMAIN:BUS:SLOT.FUNCTION",
        invalid: &[
            "",
            "3b:00.0",
            "0000:3b:00",
            "0000:3b:00.",
            "0000:3b:00.00",
            "0000:3b:0g.0",
            "0000:3b:00.0.0",
            "0000:3b:00.'",
        ],
        valid: &["0000:3B:00.0"],
    },
];

/// Checks the message of a refusal, which is the same in all languages.
pub(crate) fn assert_refusal_of_device_id(cases: &DeviceIdCases, message: &str, value: &str) {
    let DeviceIdCases {
        annotation, form, ..
    } = cases;
    let begin = format!("the annotation {annotation} is {form}, ");
    let has_format =
        message.starts_with(&begin) && message.ends_with(&format!(", and not {value}"));
    assert!(
        has_format && message.contains("hexadecimal digits"),
        "{message}"
    );
}

#[test]
fn device_ids_are_hexadecimal() {
    for cases in DEVICE_ID_CASES {
        let recipe = DOMAIN_RECIPES
            .iter()
            .find(|recipe| recipe.name == cases.recipe);
        let recipe = recipe.unwrap();
        let run = |value: &str| {
            let vmi = vmi_with("", cases.annotation, value).to_string();
            let mut edited = Domain::parse(domain()).unwrap();
            (recipe.run)(&Vmi::new(vmi), &mut edited).map(|()| edited.render())
        };
        for value in cases.invalid {
            let error = run(value).unwrap_err();
            assert!(error.is_veto(), "{value:?}: {error}");
            assert_refusal_of_device_id(cases, &error.to_string(), value);
        }
        for value in cases.valid {
            let edited = run(value).unwrap_or_else(|error| panic!("{value}: {error}"));
            assert_eq!(edited, edited_by_recipe(recipe, &domain()), "{value}");
        }
    }
}
