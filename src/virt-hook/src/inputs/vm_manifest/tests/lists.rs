//! Manifests with several VMIs.

use super::{VM_TEXT, VMI_TEXT, error, manifests, notes, only_manifest, read};

const LIST_KINDS: [&str; 3] = ["List", "VirtualMachineInstanceList", "VirtualMachineList"];

#[test]
fn all_items_of_a_list_are_found() {
    let item = |text: &str| format!("- {}", text.trim_end().replace('\n', "\n  "));
    for kind in LIST_KINDS {
        let list = format!(
            "kind: {kind}\nitems:\n{}\n{}\n",
            item(VMI_TEXT),
            item(VM_TEXT)
        );
        let manifests = read(list.as_bytes()).unwrap();
        assert_eq!(manifests.len(), 2, "{kind}");
    }
    assert_eq!(
        read(format!("{VMI_TEXT}---\n{VM_TEXT}").as_bytes())
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        read(format!("---\n{VMI_TEXT}---\n").as_bytes())
            .unwrap()
            .len(),
        1
    );
    let pod = format!("kind: List\nitems:\n{}\n- kind: Pod\n", item(VMI_TEXT));
    let note = manifests(&pod).left_out.unwrap().text;
    assert_eq!(note, "Pod (item 2) is not a VM and is left out");
    let number = format!("kind: List\nitems:\n{}\n- 7\n", item(VMI_TEXT));
    let number = error(&number);
    assert!(
        number.starts_with("item 2: it holds the number 7 and nothing else"),
        "{number}"
    );
    assert_eq!(error("kind: List\nitems: []\n"), "the list has no items");
    let documents = error(&format!("{VMI_TEXT}---\n7\n"));
    assert!(
        documents.starts_with("document 2: it holds the number 7"),
        "{documents}"
    );
}

/// `kubectl get --raw` prints lists whose items have no kind.
#[test]
fn kind_of_an_object_without_one_is_that_of_its_list_or_is_recognized() {
    let machine = VM_TEXT.replace("kind: VirtualMachine\n", "");
    let item = format!("- {}", machine.trim_end().replace('\n', "\n  "));
    for list in [
        format!("kind: VirtualMachineList\nitems:\n{item}\n"),
        format!("kind: List\nitems:\n{item}\n"),
        machine.clone(),
    ] {
        let manifest = only_manifest(&list);
        assert_eq!(manifest.vmi.domain_name(), "ns_web");
        assert!(
            notes(&manifest)[0].contains("this is a VirtualMachine"),
            "{:?}",
            manifest.notes
        );
        assert!(manifest.vmi.spec.domain.memory.is_some());
    }
    let without = machine.replace("template", "tempalte");
    let item = format!("- {}", without.trim_end().replace('\n', "\n  "));
    let list = format!("kind: VirtualMachineList\nitems:\n{item}\n");
    assert!(error(&list).contains("spec.template is missing"));
    let vmi = VMI_TEXT.replace("kind: VirtualMachineInstance\n", "");
    let item = format!("- {}", vmi.trim_end().replace('\n', "\n  "));
    let list = format!("kind: VirtualMachineInstanceList\nitems:\n{item}\n");
    assert_eq!(notes(&only_manifest(&list)), [""; 0]);
}
