// The recipes of docs/go-recipes.md, each called by its name in the annotation "recipe", and what Go's runtime and
// standard library ask of WASI, which the annotation "do" names.
package main

import (
	"encoding/json"
	"fmt"

	"virt-hook/hooks"
)

func init() {
	hooks.Export(&hooks.Hook{
		Name:    "recipes",
		Version: "0.1.0",
		// Everything, and by name what no wildcard covers.
		Paths: []string{
			"/domain/**", "/domain/sysinfo[@type='fwcfg']/**", "/domain/qemu:commandline/**", "/domain/devices/shmem/@name",
			"/domain/devices/hostdev[@type='usb']/**",
			"/domain/devices/hostdev[@type='pci']/**",
			"/domain/devices/hostdev[@type='mdev']/@display", "/domain/devices/hostdev[@type='mdev']/@ramfb",
		},
		Migration:  []string{"bandwidth"},
		ConfigKeys: []string{"key"},
		PodFacts: []string{
			"annotations/a.example/*", "annotations/example.com/disk-iops", "network-status/*", "default-network", "network-info",
		},
		PreStart:        preStart,
		PreCloudInitISO: preCloudInitISO,
		OnDefineDomain:  onDefineDomain,

		OnAttachDevice:     onAttachDevice,
		PreMigrationSource: preMigrationSource,

		Shutdown: func() error { hooks.Log(hooks.Info, "farewell"); return nil },
	})
}

func preCloudInitISO(vmi *hooks.VMI, cloudInit *hooks.CloudInit) error {
	if recipe, ok := vmi.Annotation("recipe"); ok {
		return cloudInitRecipes[recipe](vmi, cloudInit)
	}
	data, _ := cloudInit.Document("user-data")
	cloudInit.SetDocument("user-data", data+"# "+cloudInit.DataSource+"\n")
	cloudInit.SetDocument("network-data", "")
	return nil
}

// onDefineDomain runs a recipe, or writes the VMI's size as encoding/json sees it.
func onDefineDomain(vmi *hooks.VMI, domain *hooks.Domain) error {
	if recipe, ok := vmi.Annotation("recipe"); ok {
		return recipes[recipe](vmi, domain)
	}
	var decoded map[string]any
	if err := json.Unmarshal([]byte(vmi.JSON()), &decoded); err != nil {
		return err
	}
	domain.Set("title", fmt.Sprint(len(decoded)))
	return nil
}

// onAttachDevice tunes a disk, and refuses anything else.
func onAttachDevice(_ *hooks.VMI, device *hooks.Device) error {
	if device.Name() != "disk" {
		return hooks.Veto("no " + device.VMIName() + " in Go")
	}
	device.Ensure("driver").SetAttr("cache", "none")
	return nil
}

// preMigrationSource limits a migration, and refuses one whose guest may be stopped for long.
func preMigrationSource(_ *hooks.VMI, migration *hooks.Migration) error {
	if migration.Number("max-downtime") == 2000000 {
		return hooks.Veto("too long in Go")
	}
	if migration.Number("bandwidth") == 0 {
		migration.SetNumber("bandwidth", 64<<20)
	}
	return nil
}

func main() {}
