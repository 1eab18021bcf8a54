package main

import (
	"strings"
	"testing"

	"virt-hook/hooks"
)

func define(t *testing.T, xml string) string {
	t.Helper()
	vmi := `{"metadata": {"annotations": {"` + annotation + `": "Radical Edward"}}}`
	domain, err := hooks.Native{Hook: &hook}.OnDefineDomain(vmi, xml)
	if err != nil {
		t.Fatal(err)
	}
	return domain
}

func TestOtherEntriesOfTheBoardAreKept(t *testing.T) {
	board := "<sysinfo type='smbios'><baseBoard><entry name='serial'>1</entry></baseBoard></sysinfo>"
	domain := define(t, "<domain><os/>"+board+"</domain>")
	for _, part := range []string{
		"<os><smbios mode='sysinfo'/></os>",
		"<entry name='serial'>1</entry><entry name='manufacturer'>Radical Edward</entry>",
	} {
		if !strings.Contains(domain, part) {
			t.Errorf("no %s in %s", part, domain)
		}
	}
}

func TestASecondRunChangesNothing(t *testing.T) {
	once := define(t, "<domain><os/><sysinfo type='smbios'/></domain>")
	if twice := define(t, once); twice != once {
		t.Error(twice)
	}
}
