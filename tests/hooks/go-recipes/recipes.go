package main

import "virt-hook/hooks"

// The recipes of docs/go-recipes.md, by the name in docs/rust.md.
var recipes = map[string]func(*hooks.VMI, *hooks.Domain) error{
	"usb_device":                usbDevice,
	"pci_device":                pciDevice,
	"vgpu_display":              vgpuDisplay,
	"shared_memory":             sharedMemory,
	"watchdog":                  watchdog,
	"tpm":                       tpm,
	"second_serial_port":        secondSerialPort,
	"vnc_keymap":                vncKeymap,
	"pinning_and_numa":          pinningAndNUMA,
	"huge_pages":                hugePages,
	"disk_queues_and_io_thread": diskQueuesAndIOThread,
	"interface_queues":          interfaceQueues,
	"interface_model":           interfaceModel,
	"cpu_features":              cpuFeatures,
	"hide_kvm":                  hideKVM,
	"board_serial_number":       boardSerialNumber,
	"firmware_configuration":    firmwareConfiguration,
	"qemu_arguments":            qemuArguments,
	"not_on_a_migration_target": notOnAMigrationTarget,
	"disk_limit_of_the_pod":     diskLimitOfThePod,
}

var cloudInitRecipes = map[string]func(*hooks.VMI, *hooks.CloudInit) error{
	"packages":           packages,
	"user":               user,
	"network":            network,
	"where_it_runs":      whereItRuns,
	"address_of_the_pod": addressOfThePod,
}
