// A hook whose title of a domain is the team of its namespace, from a file of a granted directory.
package main

import (
	"os"
	"path/filepath"
	"strings"

	"virt-hook/hooks"
)

// teams is a variable for the test.
var teams = "/etc/teams"

var hook = hooks.Hook{
	Name:           "team",
	Version:        "0.1.0",
	Paths:          []string{"/domain/title"},
	Dirs:           []string{"/etc/teams"},
	OnDefineDomain: onDefineDomain,
}

func init() { hooks.Export(&hook) }

func onDefineDomain(vmi *hooks.VMI, domain *hooks.Domain) error {
	text, err := os.ReadFile(filepath.Join(teams, vmi.Namespace()))
	if err != nil {
		return err
	}
	// The first line of the file of the VM's namespace.
	team, _, _ := strings.Cut(string(text), "\n")
	domain.Set("title", team)
	return nil
}

func main() {}
