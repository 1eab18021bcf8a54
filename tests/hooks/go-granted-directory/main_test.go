package main

import (
	"os"
	"path/filepath"
	"testing"

	"virt-hook/hooks"
)

func TestTheTeamIsInTheFileOfTheNamespace(t *testing.T) {
	teams = t.TempDir()
	if err := os.WriteFile(filepath.Join(teams, "shop"), []byte("storage\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	domain, err := hooks.Native{Hook: &hook}.OnDefineDomain(`{"metadata": {"namespace": "shop"}}`, "<domain/>")
	if err != nil || domain != "<domain><title>storage</title></domain>" {
		t.Error(err, domain)
	}
}
