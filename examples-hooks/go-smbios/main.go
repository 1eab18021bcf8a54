// A hook that sets the manufacturer of the base board, as a guest reads it from SMBIOS, from an annotation.
package main

import "virt-hook/hooks"

// annotation is the same as in KubeVirt's own example sidecar.
const annotation = "smbios.vm.kubevirt.io/baseBoardManufacturer"

var hook = hooks.Hook{
	Name:           "smbios",
	Version:        "0.1.0",
	Paths:          []string{"/domain/os/smbios/**", "/domain/sysinfo/baseBoard/**"},
	OnDefineDomain: onDefineDomain,
}

func init() { hooks.Export(&hook) }

func onDefineDomain(vmi *hooks.VMI, domain *hooks.Domain) error {
	manufacturer, ok := vmi.Annotation(annotation)
	if !ok {
		return nil
	}
	domain.Set("os/smbios/@mode", "sysinfo")
	domain.Set("sysinfo[@type='smbios']/baseBoard/entry[@name='manufacturer']", manufacturer)
	return nil
}

// main is never called: the host calls the hook's functions.
func main() {}
