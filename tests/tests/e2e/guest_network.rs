//! The guest's network: it uses virt-handler's tap device and gets its address from the launcher's DHCP server.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tests::launcher_fixture::{LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

const RESOLV_CONF: &str = "nameserver 10.96.0.10\nnameserver 10.96.0.11\nsearch default.svc.cluster.local cluster.local\n";

/// The commands that create the pod's interface, the bridge of its binding, and the tap device for QEMU's user.
const LINKS: &str = "
    ip link add eth0 type veth peer name outside
    ip link set eth0 address 02:00:00:ab:cd:ef mtu 1400
    ip link add k6t-eth0 type bridge
    ip link set k6t-eth0 address 02:00:00:00:00:00
    ip link set k6t-eth0 up
    ip tuntap add tap0 mode tap user 107 group 107
    ip link set tap0 master k6t-eth0
    ip link set tap0 mtu 1400 up
";

fn vmi(name: &str, interface: Value) -> Vmi {
    Vmi::new(name, LauncherUser::Nonroot)
        .interface(interface)
        .kernel_argument("dhcp")
}

/// Boots a VM in a pod with these additional links, and returns the guest's reports.
async fn boot(
    prepared: PreparedPod,
    vmi: &Vmi,
    links: &str,
) -> Result<(LauncherFixture, Vec<String>)> {
    prepared
        .pod
        .set_up_network(&format!("{LINKS}{links}"), RESOLV_CONF)?;
    let fixture = prepared.start(vmi, &[]).await?;
    let guest_reports = fixture.boot_and_read_reports(vmi).await?;
    Ok((fixture, guest_reports))
}

fn assert_all_reported(guest_reports: &[String], reports: &[&str]) -> Result<()> {
    for report in reports {
        ensure!(
            guest_reports.iter().any(|line| line.trim_end() == *report),
            "the guest did not tell {report:?}, but {guest_reports:#?}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_masqueraded_guest_reaches_its_gateway() -> Result<()> {
    let vmi = vmi("masquerade", json!({ "name": "default", "masquerade": {} }));
    let links = "
        ip address add 10.244.1.7/24 dev eth0
        ip link set eth0 up
        ip address add 10.0.2.1/24 dev k6t-eth0";
    let (fixture, guest_reports) =
        boot(PreparedPod::create(LauncherUser::Nonroot)?, &vmi, links).await?;
    assert_all_reported(
        &guest_reports,
        &[
            "nic eth0: 02:00:00:ab:cd:ef",
            "dhcp address: 10.0.2.2/24",
            "dhcp server: 10.0.2.1",
            "dhcp lease: 86313600",
            "dhcp router: 10.0.2.1",
            "dhcp dns: 10.96.0.10 10.96.0.11",
            "dhcp domain: default.svc.cluster.local",
            "dhcp search: default.svc.cluster.local cluster.local",
            "dhcp mtu: 1400",
            "ping 10.0.2.1: answered",
        ],
    )?;
    fixture.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bridged_guest_gets_the_pods_address() -> Result<()> {
    let options = json!({
        "bootFileName": "pxelinux.0", "tftpServerName": "tftp.example", "ntpServers": ["10.0.0.1", "10.0.0.2"],
        "privateOptions": [{ "option": 240, "value": "private" }],
    });
    let vmi = vmi(
        "bridge",
        json!({ "name": "default", "bridge": {}, "dhcpOptions": options }),
    );
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let cache = json!({
        "IP": { "IP": "10.244.1.7", "Mask": "////AA==" }, "MAC": "AgAAq83v", "Gateway": "10.244.1.1",
        "Routes": [{ "Dst": null, "Gw": "10.244.1.1" }], "IPAMDisabled": false,
    });
    let path = prepared
        .pod
        .path("/run/kubevirt-private/vif-cache-eth0.json");
    std::fs::write(path, cache.to_string())?;
    // As with KubeVirt's bridge binding, the pod's interface is renamed and is a port of the bridge, and a dummy has
    // its name. The router is behind the interface.
    let links = "
        ip link set eth0 name eth0-nic
        ip link set eth0-nic address 02:00:00:00:00:0a master k6t-eth0
        ip link set eth0-nic up
        ip address add 10.244.1.1/24 dev outside
        ip link set outside up
        ip address add 169.254.75.10/32 dev k6t-eth0
        ip link add eth0 type bridge
        ip link set eth0 address 02:00:00:ab:cd:ef mtu 1400
        echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore";
    let (fixture, guest_reports) = boot(prepared, &vmi, links).await?;
    assert_all_reported(
        &guest_reports,
        &[
            "nic eth0: 02:00:00:ab:cd:ef",
            "dhcp address: 10.244.1.7/24",
            "dhcp server: 169.254.75.10",
            "dhcp router: 10.244.1.1",
            "dhcp routes: 0.0.0.0/0 10.244.1.1",
            "dhcp mtu: 1400",
            "dhcp ntp: 10.0.0.1 10.0.0.2",
            "dhcp boot file: pxelinux.0",
            "dhcp tftp: tftp.example",
            "ping 10.244.1.1: answered",
        ],
    )?;
    fixture.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_tap_device_fails_the_sync() -> Result<()> {
    let vmi = Vmi::new("unprepared", LauncherUser::Nonroot)
        .interface(json!({ "name": "default", "masquerade": {} }));
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    let answer = fixture.commands.sync(&vmi).await?;
    ensure!(!answer.success, "{answer:?}");
    ensure!(
        answer.message.contains(
            "preparing the pod network failed: interface default: the pod has no link eth0;"
        ),
        "{answer:?}"
    );
    Ok(())
}
