package main

import (
	"errors"

	"virt-hook/hooks"
)

// Recipes that change cloud-init data.

func packages(_ *hooks.VMI, cloudInit *hooks.CloudInit) error {
	return cloudInit.EditCloudConfig(func(config *hooks.CloudConfig) error {
		if err := config.AddPackage("qemu-guest-agent"); err != nil {
			return err
		}
		return config.AddRunCommand("systemctl", "enable", "--now", "qemu-guest-agent")
	})
}

func user(vmi *hooks.VMI, cloudInit *hooks.CloudInit) error {
	key, ok := vmi.Annotation("example.com/ops-key")
	if !ok {
		return nil
	}
	members := hooks.Members{
		{Name: "groups", Value: "wheel"},
		{Name: "lock_passwd", Value: true},
		{Name: "ssh_authorized_keys", Value: []string{key}},
	}
	return cloudInit.EditCloudConfig(func(config *hooks.CloudConfig) error { return config.AddUser("ops", members) })
}

func network(_ *hooks.VMI, cloudInit *hooks.CloudInit) error {
	return cloudInit.EditNetworkData(func(network *hooks.YAML) error {
		if err := network.Set("version", 2); err != nil {
			return err
		}
		return network.Set("ethernets.eth0.mtu", 1400)
	})
}

func whereItRuns(vmi *hooks.VMI, cloudInit *hooks.CloudInit) error {
	// The node's name is in the VMI's status from the start on.
	text := "node=" + vmi.NodeName() + "\nvm=" + vmi.Namespace() + "/" + vmi.Name() + "\n"
	return cloudInit.EditCloudConfig(func(config *hooks.CloudConfig) error {
		return config.AddFile("/etc/placement", "0644", text)
	})
}

func addressOfThePod(_ *hooks.VMI, cloudInit *hooks.CloudInit) error {
	// Multus writes it while the pod starts: the host waits for it.
	networks, err := hooks.PodNetworks("infra/lab")
	if err != nil {
		return err
	}
	lab := networks[0]
	if len(lab.IPs) == 0 {
		return errors.New("infra/lab has no address")
	}
	return cloudInit.EditNetworkData(func(network *hooks.YAML) error {
		if err := network.Set("ethernets.lab.match.macaddress", lab.MAC); err != nil {
			return err
		}
		return network.Set("ethernets.lab.addresses", []string{lab.IPs[0] + "/24"})
	})
}
