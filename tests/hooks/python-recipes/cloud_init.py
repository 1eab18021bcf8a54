"""Recipes that change cloud-init data."""

from virt_hook import pod


def packages(vmi, documents):
    with documents.cloud_config() as config:
        config.add_package("qemu-guest-agent")
        config.add_run_command("systemctl", "enable", "--now", "qemu-guest-agent")


def user(vmi, documents):
    key = vmi.annotation("example.com/ops-key")
    if key is None:
        return
    members = {"groups": "wheel", "lock_passwd": True, "ssh_authorized_keys": [key]}
    with documents.cloud_config() as config:
        config.add_user("ops", members)


def network(vmi, documents):
    with documents.network_data() as network:
        network.set("version", 2)
        network.set("ethernets.eth0.mtu", 1400)


def where_it_runs(vmi, documents):
    # The node's name is in the VMI's status from the start on.
    text = f"node={vmi.node_name or 'unknown'}\nvm={vmi.namespace}/{vmi.name}\n"
    with documents.cloud_config() as config:
        config.add_file("/etc/placement", "0644", text)


def address_of_the_pod(vmi, documents):
    # Multus writes it while the pod starts: the host waits for it.
    lab = pod.networks("infra/lab")[0]
    with documents.network_data() as network:
        network.set("ethernets.lab.match.macaddress", lab.mac)
        network.set("ethernets.lab.addresses", [f"{lab.ips[0]}/24"])
