package hooks

import (
	"errors"
	"strings"
	"testing"
)

const domainXML = `<?xml version="1.0"?>
<!-- before -->
<domain type='kvm' xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>vm</name>
  <metadata><k:kubevirt xmlns:k="http://kubevirt.io"><k:uid>u</k:uid></k:kubevirt></metadata>
  <devices>
    <disk type="file"  device='disk'>
      <target dev='vda'/>
      <alias name='ua-root'/>
    </disk>
    <interface><mac address='02:00:00:00:00:0a'/><alias name='ua-default'/></interface>
    <hostdev><source><address domain='0x0000' bus='0x65' slot='0x00' function='0x0'/></source><alias name='ua-gpu-big'/></hostdev>
  </devices>
  <title><![CDATA[a & b]]> &lt;c&#62;</title>
  <q:commandline>
    <q:arg value='-S'/>
  </q:commandline>
</domain >
`

func edited(t *testing.T, edit func(*Domain)) string {
	t.Helper()
	domain := MustParseDomain(domainXML)
	edit(domain)
	once := domain.String()
	again := MustParseDomain(once)
	edit(again)
	if twice := again.String(); twice != once {
		t.Errorf("a second run changes it: %s", twice)
	}
	return once
}

func expect(t *testing.T, got, before, after string) {
	t.Helper()
	if !strings.Contains(domainXML, before) {
		t.Fatalf("no %s in the document", before)
	}
	if want := strings.Replace(domainXML, before, after, 1); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWhatIsNotTouchedKeepsItsBytes(t *testing.T) {
	if got := edited(t, func(*Domain) {}); got != domainXML {
		t.Error(got)
	}
	got := edited(t, func(d *Domain) { d.Set("devices/disk/target/@dev", "vda"); d.Set("name", "vm") })
	if got != domainXML {
		t.Error(got)
	}
}

func TestAnEditIsAllThatChanges(t *testing.T) {
	got := edited(t, func(d *Domain) { d.Disk("root").Set("driver/@queues", "2") })
	expect(t, got, "<alias name='ua-root'/>\n", "<alias name='ua-root'/>\n      <driver queues='2'/>\n")
	got = edited(t, func(d *Domain) { d.Set("devices/disk/@type", `a"b'<`) })
	expect(t, got, `type="file"`, `type="a&quot;b'&lt;"`)
	got = edited(t, func(d *Domain) { d.Interface("02:00:00:00:00:0A").Set("driver/@queues", "2") })
	expect(t, got, "'ua-default'/>", "'ua-default'/><driver queues='2'/>")
	got = edited(t, func(d *Domain) { d.Remove("devices/interface") })
	expect(t, got, "\n    <interface><mac address='02:00:00:00:00:0a'/><alias name='ua-default'/></interface>", "")
	got = edited(t, func(d *Domain) { d.Remove("devices/disk/@device") })
	expect(t, got, "  device='disk'", "")
	got = edited(t, func(d *Domain) { d.AddQEMUArgs("-device", "x") })
	expect(t, got, "'-S'/>\n", "'-S'/>\n    <q:arg value='-device'/>\n    <q:arg value='x'/>\n")
	got = edited(t, func(d *Domain) {
		d.InsertIfAbsent("devices/watchdog", MustParseElement("<watchdog model='itco'> <alias name='ua-w'/></watchdog>"))
	})
	expect(t, got, "  </devices>", "    <watchdog model='itco'>\n      <alias name='ua-w'/>\n    </watchdog>\n  </devices>")
}

func TestNamespacesAreDeclaredAtTheRoot(t *testing.T) {
	domain := MustParseDomain("<domain type=\"kvm\">\n\t<name>vm</name>\n</domain>")
	domain.AddQEMUArgs("-S")
	want := "<domain type=\"kvm\" xmlns:qemu=\"http://libvirt.org/schemas/domain/qemu/1.0\">\n\t<name>vm</name>\n" +
		"\t<qemu:commandline>\n\t\t<qemu:arg value='-S'/>\n\t</qemu:commandline>\n</domain>"
	if got := domain.String(); got != want {
		t.Error(got)
	}
}

func TestPathsSelect(t *testing.T) {
	domain := MustParseDomain(domainXML)
	for path, want := range map[string]string{
		"name":                  "vm",
		"/domain/@type":         "kvm",
		"title":                 "a & b <c>",
		"metadata/kubevirt/uid": "u",
		"**/target/@dev":        "vda",
		"qemu:*/qemu:arg[1]/@*": "-S",
		"devices/disk[target/@dev='vda'][@type=\"file\"]/alias/@name": "ua-root",
	} {
		if got, ok := domain.Value(path); !ok || got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
	for _, path := range []string{"devices/disk[2]", "devices/disk[driver]", "title[text()='x']"} {
		if domain.Find(path) != nil {
			t.Error(path)
		}
	}
	if n := len(domain.FindAll("/domain/devices/**")); n != 11 {
		t.Error(n)
	}
	if domain.HostDevice("big") == nil || domain.HostDevice("0000:65:00.0") == nil || domain.HostDevice("65:00") != nil {
		t.Error("host devices")
	}
}

func TestAbsolutePathsWithAnotherRootPanic(t *testing.T) {
	domain := MustParseDomain(domainXML)
	panics := func(call func(path string), path string) (message any) {
		defer func() { message = recover() }()
		call(path)
		return nil
	}
	for name, call := range map[string]func(string){
		"Find":        func(path string) { domain.Find(path) },
		"FindAll":     func(path string) { domain.FindAll(path) },
		"Value":       func(path string) { domain.Value(path) },
		"Remove":      func(path string) { domain.Remove(path) },
		"SetIfAbsent": func(path string) { domain.SetIfAbsent(path, "a") },
	} {
		for _, path := range []string{"/devices/disk", "/other/@name"} {
			want := "path `" + path + "`: the element is <domain>, not what the path begins with"
			if message := panics(call, path); message != want {
				t.Errorf("%s: %v", name, message)
			}
		}
	}
	for _, path := range []string{"/*/none", "/**/none", "/domain[@type='x']/name"} {
		if domain.Find(path) != nil {
			t.Error(path)
		}
	}
	var none *Element
	if none.Find("/devices/disk") != nil {
		t.Error("nil has elements")
	}
}

func TestWrongPathsPanicWithTheirColumn(t *testing.T) {
	told := func(use func(*Domain)) (text string) {
		defer func() { text, _ = recover().(string) }()
		use(MustParseDomain(domainXML))
		return ""
	}
	for path, want := range map[string]string{
		"disk[@dev='vda": "column 11: expected a value whose quotes are closed",
		"/domain//os":    "column 9: expected the name of an element, `*`, `**` or `@`",
		"a/@b/c":         "column 5: expected `/`, `[` or the end of the path",
		"":               "column 1: ",
		"/@x":            "before an attribute",
		"os/1st":         "column 4: ",
		"é/[":            "column 3: ",
	} {
		if got := told(func(d *Domain) { d.Find(path) }); !strings.Contains(got, want) {
			t.Errorf("%s: %s", path, got)
		}
	}
	for _, path := range []string{"devices/*", "**", "devices/disk[3]", "devices/disk[driver]", "/other/name", "devices/@x"} {
		if told(func(d *Domain) { d.Ensure(path) }) == "" {
			t.Error(path)
		}
	}
	if told(func(d *Domain) { d.InsertIfAbsent("devices/disk[@x='1']", NewElement("disk")) }) == "" {
		t.Error("what the path would not find again is added")
	}
}

func TestOtherTextIsNoDomain(t *testing.T) {
	deep := strings.Repeat("<a>", 1000) + strings.Repeat("</a>", 1000)
	for _, text := range []string{
		"", "x", "<a>", "<a/><b/>", "<a b=1/>", "<a b='1' b='2'/>", "<a b='<'/>", "<a>&x;</a>", "<a>&#0;</a>", "<a></b>",
		"<!DOCTYPE a><a/>", "<a><![CDATA[</a>", "<a><!--</a>", "<a\x01/>", "\xff", "<a b='1'c='2'/>", "<a", "<a b", "<a b='", deep,
	} {
		if _, err := ParseDomain(text); err == nil || !strings.HasPrefix(err.Error(), "the domain XML: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAnyEndOfADocumentIsAnErrorOrADocument(t *testing.T) {
	for at := range domainXML {
		if domain, err := ParseDomain(domainXML[:at]); err == nil && domain.String() != domainXML[:at] {
			t.Error(at)
		}
	}
}

func TestTheVMIIsRead(t *testing.T) {
	vmi := MustParseVMI(` {"metadata": {"name": "n", "labels": null, "annotations": {"a.b/c": "\u00e9\ud83d\ude00\n\"", "x": 1}},
		"spec": {"volumes": [{"name": "root", "size": -1.5e3}, {"name": "b", "on": true, "off": false}], "domain": {"cpu": {"cores": 4, "threads": 2}}}}`)
	if text, ok := vmi.Annotation("a.b/c"); !ok || text != "é😀\n\"" || vmi.Name() != "n" || vmi.VCPUs() != 8 {
		t.Error(text, vmi.Name(), vmi.VCPUs())
	}
	if _, ok := vmi.Annotation("x"); ok {
		t.Error("a number is no annotation")
	}
	if text, _ := vmi.Get("metadata.annotations['a.b/c']").Text(); text == "" {
		t.Error("a name with dots")
	}
	if !vmi.Get("spec.volumes[name=b].on").IsTrue() || vmi.Get("spec.volumes[2]").Exists() || vmi.Get("spec.x.y").Exists() {
		t.Error("volumes")
	}
	for path, isFalse := range map[string]bool{"off": true, "on": false, "name": false, "absent": false} {
		if vmi.Get("spec.volumes[name=b]."+path).IsFalse() != isFalse {
			t.Error(path)
		}
	}
	if len(vmi.Get("spec.volumes").Items()) != 2 || vmi.Get("spec.volumes[1]").Name() != "b" {
		t.Error("items")
	}
	for _, text := range []string{"", "{", "[1,]", `{"a" 1}`, `"\x"`, `"`, "nul", "1 2", "-", strings.Repeat("[", 9999), "\"\n\""} {
		if _, err := ParseVMI(text); err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func TestTheDescriptionNamesWhatIsSet(t *testing.T) {
	hook := Hook{Name: "a\"b", Version: "1", Priority: -3, Paths: []string{"/domain/title"}, Shutdown: func() error { return nil }}
	want := `{"name":"a\"b","version":"1","hookPoints":[{"name":"Shutdown","priority":-3}],` +
		`"wishes":{"paths":["/domain/title"],"config":[],"dirs":[]}}`
	if got := hook.Describe(); got != want {
		t.Error(got)
	}
}

func TestAVetoMayBeWrappedAndAPanicNamesItsPlace(t *testing.T) {
	if veto, ok := asVeto(errors.Join(Veto("no"))); !ok || veto != "no" {
		t.Error(veto)
	}
	hook := Hook{OnDefineDomain: func(_ *VMI, domain *Domain) error { domain.Find("]"); return nil }}
	if _, err := hook.callOnDefineDomain("{}", "<domain/>"); err == nil || !strings.Contains(err.Error(), "path `]`") {
		t.Error(err)
	}
	if _, err := hook.callOnDefineDomain("{", "<domain/>"); err == nil || !strings.HasPrefix(err.Error(), "the VMI: ") {
		t.Error(err)
	}
}

func TestAFakeHostAnswers(t *testing.T) {
	fake := FakeHost{Config: map[string]string{"key": "value"}}
	t.Cleanup(fake.Install())
	Log(Info, "line")
	if value, ok := Config("key"); !ok || value != "value" || len(fake.Logged) != 1 {
		t.Error(value, fake.Logged)
	}
}
