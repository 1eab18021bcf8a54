package main

import (
	"testing"

	"virt-hook/hooks"
)

func define(t *testing.T, annotations string) string {
	t.Helper()
	vmi := `{"metadata": {"name": "vm", "annotations": ` + annotations + `}}`
	// As the host calls it: what the hook changes must be in its Paths.
	domain, err := hooks.Native{Hook: &hook}.OnDefineDomain(vmi, "<domain>\n  <name>vm</name>\n</domain>\n")
	if err != nil {
		t.Fatal(err)
	}
	return domain
}

func TestTheAnnotationBecomesTheTitle(t *testing.T) {
	domain := define(t, `{"`+titleAnnotation+`": "A & B"}`)
	if want := "<domain>\n  <name>vm</name>\n  <title>A &amp; B</title>\n</domain>\n"; domain != want {
		t.Errorf("got %s, want %s", domain, want)
	}
}

func TestNothingChangesWithoutTheAnnotation(t *testing.T) {
	if domain := define(t, `{}`); domain != "<domain>\n  <name>vm</name>\n</domain>\n" {
		t.Error(domain)
	}
}
