package main

import (
	"testing"

	"virt-hook/hooks"
)

func define(t *testing.T, annotations string) string {
	t.Helper()
	vmi := hooks.MustParseVMI(`{"metadata": {"name": "vm", "annotations": ` + annotations + `}}`)
	domain := hooks.MustParseDomain("<domain>\n  <name>vm</name>\n</domain>\n")
	if err := onDefineDomain(vmi, domain); err != nil {
		t.Fatal(err)
	}
	return domain.String()
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
