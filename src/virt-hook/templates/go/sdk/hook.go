// Package hooks is the SDK for hooks of KubeVirt virtual machines in Go.
//
// A hook is a [Hook] that is exported from an init function of package main:
//
//	func init() {
//		hooks.Export(&hooks.Hook{
//			Name:           "title",
//			Version:        "0.1.0",
//			Paths:          []string{"/domain/title"},
//			OnDefineDomain: onDefineDomain,
//		})
//	}
//
// Every call gets a fresh sandbox: the program starts, runs one function of the hook and ends, so that nothing is kept
// in variables. There is no network, no subprocess, and no file that is not granted. A hook's function must not leave
// goroutines behind.
//
// An error is a failure of the hook, a [Veto] its "no". A panic is a failure too, reported with the line in the hook.
package hooks

import (
	"slices"
	"strconv"
	"strings"
)

// Hook is a hook: its description, and a function for each of its hook points.
type Hook struct {
	// Name is the hook's name in logs and events.
	Name string
	// Version is the hook's own version.
	Version string
	// Priority is the hook's place in the chain: higher ones run first.
	Priority int
	// Paths are what the hook changes of the domain, as patterns from /domain/ on. The host refuses every other change.
	// A path that ends in the name of an element includes its own attributes.
	Paths []string
	// ConditionedPaths are further paths, and what the hook writes there.
	ConditionedPaths []ConditionedPath
	// ConfigKeys are the keys that the hook reads with [Config].
	ConfigKeys []string
	// Dirs are the directories that the hook reads. They are there, read-only, if the operator's policy allows them.
	Dirs []string
	// Migration are the names of the parameters of a migration that the hook changes: bandwidth, max-downtime, ...
	Migration []string
	// PodFacts are the facts about the pod that the hook reads: annotations/KEY, labels/KEY,
	// network-status/NAMESPACE/NAME, default-network, network-info, with * for any characters. The operator's policy has
	// to allow them.
	PodFacts []string

	// PreStart runs before anything is prepared. A veto ends the start.
	PreStart func(vmi *VMI) error
	// PreCloudInitISO runs before the cloud-init image is written; only if the VMI has cloud-init data.
	PreCloudInitISO func(vmi *VMI, cloudInit *CloudInit) error
	// OnDefineDomain runs before the domain is defined. libvirt has assigned no addresses yet.
	OnDefineDomain func(vmi *VMI, domain *Domain) error
	// OnAttachDevice runs before a device is attached to the running virtual machine. What the device is (target, alias,
	// MAC address, source) cannot be changed. A veto keeps the device away.
	OnAttachDevice func(vmi *VMI, device *Device) error
	// PreMigrationSource runs before the virtual machine is migrated to another node. A veto ends the migration.
	PreMigrationSource func(vmi *VMI, migration *Migration) error
	// Shutdown runs when the launcher ends, even if there never was a domain.
	Shutdown func() error
}

// ConditionedPath is a path that the hook changes, and what it writes there: the host refuses every other value, and the
// removal of what is there. The path ends in the name of an attribute, or of an element whose text is meant. Of the
// conditions at least one is set, and those that are set must all hold.
//
//	{Path: "/domain/devices/serial/log/@file", Below: "/var/log/vms"}
type ConditionedPath struct {
	Path string
	// Below is a directory: absolute paths below it, written without .., ., // and a / at the end. Only the text counts.
	Below string
	// OneOf are the values.
	OneOf []string
	// Matches is a regular expression that describes whole values, in the syntax of package regexp.
	Matches string
	// AtMost is the largest number: decimal digits without sign, unit, space and leading zeros. See [Maximum].
	AtMost *uint64
}

// Maximum is the number for AtMost of a [ConditionedPath].
func Maximum(number uint64) *uint64 { return &number }

func (p *ConditionedPath) json() string {
	out := `{"path":` + quoteJSON(p.Path)
	if p.Below != "" {
		out += `,"below":` + quoteJSON(p.Below)
	}
	if p.OneOf != nil {
		out += `,"one-of":` + jsonList(p.OneOf)
	}
	if p.Matches != "" {
		out += `,"matches":` + quoteJSON(p.Matches)
	}
	if p.AtMost != nil {
		out += `,"at-most":` + strconv.FormatUint(*p.AtMost, 10)
	}
	return out + `}`
}

// declaredPaths are the paths, those with conditions at the end.
func (h *Hook) declaredPaths() []string {
	paths := slices.Clone(h.Paths)
	for i := range h.ConditionedPaths {
		paths = append(paths, h.ConditionedPaths[i].Path)
	}
	return paths
}

// pathsJSON are the wishes for paths.
func (h *Hook) pathsJSON() string {
	var wishes []string
	for _, path := range h.Paths {
		wishes = append(wishes, quoteJSON(path))
	}
	for i := range h.ConditionedPaths {
		wishes = append(wishes, h.ConditionedPaths[i].json())
	}
	return "[" + strings.Join(wishes, ",") + "]"
}

// exported is the program's hook.
var exported *Hook

// Export makes a hook the one that the module exports. Call it once, from an init function.
func Export(hook *Hook) {
	if exported != nil {
		panic("hooks.Export is called twice: a module has one hook")
	}
	exported = hook
}

// Describe returns the description that the host reads, as JSON.
func (h *Hook) Describe() string {
	out := `{"name":` + quoteJSON(h.Name) + `,"version":` + quoteJSON(h.Version) + `,"hookPoints":[`
	first := true
	for _, point := range []struct {
		name   string
		served bool
	}{
		{"PreStart", h.PreStart != nil},
		{"PreCloudInitIso", h.PreCloudInitISO != nil},
		{"OnDefineDomain", h.OnDefineDomain != nil},
		{"OnAttachDevice", h.OnAttachDevice != nil},
		{"PreMigrationSource", h.PreMigrationSource != nil},
		{"Shutdown", h.Shutdown != nil},
	} {
		if !point.served {
			continue
		}
		if !first {
			out += ","
		}
		first = false
		out += `{"name":"` + point.name + `","priority":` + itoa(h.Priority) + `}`
	}
	out += `],"wishes":{"paths":` + h.pathsJSON() + `,"config":` + jsonList(h.ConfigKeys) +
		`,"dirs":` + jsonList(h.Dirs)
	if len(h.Migration) > 0 {
		out += `,"migration":` + jsonList(h.Migration)
	}
	if len(h.PodFacts) > 0 {
		out += `,"pod":` + jsonList(h.PodFacts)
	}
	return out + `}}`
}

// Veto is an error that says no: the virtual machine must not start. Its owner reads the text.
type Veto string

// Error is the text.
func (v Veto) Error() string { return string(v) }
