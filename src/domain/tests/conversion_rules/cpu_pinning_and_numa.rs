//! Pinning to dedicated CPUs, and guest NUMA.

use serde_json::{Value, json};

use super::{Case, topology};

fn dedicated_cpus(mut domain: Value, cpuset: &[u32]) -> Case {
    domain["cpu"]["dedicatedCpuPlacement"] = json!(true);
    Case::domain(domain)
        .options(json!({"topology": topology()}))
        .host(json!({"cpuset": cpuset}))
}

/// All CPUs of [`topology`].
const ALL_CPUS: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

#[test]
fn sockets_for_hotplug_are_not_pinned() {
    let case = dedicated_cpus(
        json!({"cpu": {"cores": 2, "sockets": 1, "maxSockets": 4}}),
        &ALL_CPUS,
    );
    let spec = case.domain_spec();
    assert_eq!(spec.vcpu.unwrap().cpus, 8);
    let pins: Vec<_> = spec
        .cpu_tune
        .unwrap()
        .vcpu_pin
        .into_iter()
        .map(|pin| pin.cpuset)
        .collect();
    assert_eq!(pins, ["0", "4"]);
}

#[test]
fn too_few_host_cpus_are_errors() {
    let error =
        |cpu: Value, cpuset: &[u32]| dedicated_cpus(json!({"cpu": cpu}), cpuset).conversion_error();
    assert_eq!(
        error(json!({"cores": 4}), &[0, 1, 2]),
        "not enough exclusive threads provided, could not fit 1 core(s)"
    );
    assert_eq!(
        error(json!({"cores": 2, "isolateEmulatorThread": true}), &[0, 1]),
        "no CPU allocated for the emulation thread: no remaining unassigned threads"
    );
    let numa = json!({"cores": 1, "threads": 2, "numa": {"guestMappingPassthrough": {}}});
    assert_eq!(
        error(numa, &[0, 2]),
        "could not fit 1 core(s) without crossing numa cell boundaries for individual cores"
    );
}

#[test]
fn emulator_thread_completes_to_even_parity_on_request() {
    let emulator = |cores: u32| {
        let cpu = json!({"cores": cores, "isolateEmulatorThread": true});
        let case = dedicated_cpus(json!({"cpu": cpu}), &ALL_CPUS)
            .annotation("alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity", "");
        case.domain_spec()
            .cpu_tune
            .unwrap()
            .emulator_pin
            .unwrap()
            .cpuset
    };
    assert_eq!(emulator(2), "1,5");
    assert_eq!(emulator(3), "5");
}

fn disks(count: u32) -> (Value, Value) {
    let names = (0..count).map(|disk| format!("d{disk}"));
    let disks: Vec<_> = names
        .clone()
        .map(|name| json!({"name": name, "disk": {"bus": "virtio"}}))
        .collect();
    let volumes: Vec<_> = names
        .map(|name| json!({"name": name, "emptyDisk": {"capacity": "1Mi"}}))
        .collect();
    (json!({"disks": disks}), json!(volumes))
}

fn io_pins(domain: Value, count: u32) -> Vec<(u32, String)> {
    let (devices, volumes) = disks(count);
    let mut case = dedicated_cpus(domain, &ALL_CPUS);
    case.spec["domain"]["devices"] = devices;
    case.spec["volumes"] = volumes;
    let tune = case.domain_spec().cpu_tune.unwrap();
    tune.io_thread_pin
        .into_iter()
        .map(|pin| (pin.io_thread, pin.cpuset))
        .collect()
}

#[test]
fn io_threads_are_pinned_to_the_guests_cpus() {
    let auto = json!({"cpu": {"cores": 4}, "ioThreadsPolicy": "auto", "resources": {"requests": {"cpu": "4"}}});
    assert_eq!(
        io_pins(auto, 3),
        [(1, "0,1".into()), (2, "2".into()), (3, "3".into())]
    );
    let isolated =
        json!({"cpu": {"cores": 4, "isolateEmulatorThread": true}, "ioThreadsPolicy": "auto"});
    // There is one IO thread then, on the CPU of the emulator thread.
    assert_eq!(io_pins(isolated, 3), [(1, "2".into())]);
    let pool = json!({"cpu": {"cores": 4}, "ioThreadsPolicy": "supplementalPool", "ioThreads": {"supplementalPoolThreadCount": 2}});
    assert_eq!(io_pins(pool, 2), [(1, "2".into()), (2, "6".into())]);
}

#[test]
fn io_threads_need_disks() {
    let case = dedicated_cpus(
        json!({"cpu": {"cores": 1}, "ioThreadsPolicy": "auto"}),
        &ALL_CPUS,
    );
    assert_eq!(case.conversion_error(), "domain is missing IOThreads");
}

fn numa(cores: u32, memory: &str, realtime: Value) -> Case {
    let cpu =
        json!({"cores": cores, "numa": {"guestMappingPassthrough": {}}, "realtime": realtime});
    dedicated_cpus(
        json!({"cpu": cpu, "memory": {"guest": memory, "hugepages": {"pageSize": "2Mi"}}}),
        &ALL_CPUS,
    )
}

#[test]
fn guest_numa_has_one_cell_per_host_node() {
    let spec = numa(6, "130Mi", json!({})).domain_spec();
    let cells = spec.cpu.numa.unwrap().cells;
    assert_eq!(
        (cells[0].cpus.as_str(), cells[1].cpus.as_str()),
        ("0,1,2,3", "4,5")
    );
    // The first cell gets one more of the 65 pages.
    assert_eq!(
        (cells[0].memory, cells[1].memory),
        (Some(33 * (2 << 20)), Some(32 * (2 << 20)))
    );
    let tune = spec.numa_tune.unwrap();
    assert_eq!(tune.memory.node_set, "0,1");
    assert_eq!(
        (
            tune.mem_nodes[1].cell_id,
            tune.mem_nodes[1].node_set.as_str()
        ),
        (1, "1")
    );
    let backing = spec.memory_backing.unwrap();
    assert_eq!(backing.huge_pages.unwrap().huge_page.len(), 2);
    assert!(backing.no_share_pages.is_some());
    assert_eq!(spec.features.unwrap().pmu.unwrap().state, "off");
}

#[test]
fn numa_memory_must_be_whole_huge_pages() {
    assert!(
        numa(6, "2Mi", json!(null))
            .conversion_error()
            .starts_with("not enough memory requested")
    );
    assert!(
        numa(2, "3Mi", json!(null))
            .conversion_error()
            .contains("numa page size")
    );
    let no_pages = json!({"cpu": {"cores": 1, "numa": {"guestMappingPassthrough": {}}}, "memory": {"guest": "64Mi"}});
    assert_eq!(
        dedicated_cpus(no_pages, &ALL_CPUS).conversion_error(),
        "passing through a numa topology is restricted to VMIs with hugepages enabled"
    );
}
