// A hook that gives the domain a title, from an annotation of the virtual machine.
package main

import (
	"strings"

	"virt-hook/hooks"
)

// titleAnnotation is the annotation. Use a domain of your own.
const titleAnnotation = "{{name}}.example.com/title"

var hook = hooks.Hook{
	Name:    "{{name}}",
	Version: "0.1.0",
	// What is not listed here is refused when the hook does it.
	Paths:          []string{"/domain/title"},
	OnDefineDomain: onDefineDomain,
}

func init() { hooks.Export(&hook) }

func onDefineDomain(vmi *hooks.VMI, domain *hooks.Domain) error {
	title, ok := vmi.Annotation(titleAnnotation)
	if !ok {
		return nil
	}
	if strings.Contains(title, "\n") {
		return hooks.Veto(titleAnnotation + " has more than one line, which libvirt refuses")
	}
	domain.Set("title", title)
	return nil
}

// main is never called: the host calls the hook's functions.
func main() {}
