package hooks

import (
	"errors"
	"strings"
	"testing"
)

// Each task of docs/sdk.md for "the domain, or a device".
func TestADeviceIsEditedAsADomainIs(t *testing.T) {
	device := MustParseDevice("<hostdev><source><product id='1'/></source></hostdev>")
	if id, _ := device.Value("source/product/@id"); id != "1" || device.Find("source/product") == nil || len(device.FindAll("source/*")) != 1 {
		t.Error(id)
	}
	device.Set("@managed", "no")
	if device.SetIfAbsent("@managed", "yes") {
		t.Error("it was set")
	}
	device.Ensure("alias").SetAttr("name", "ua-a")
	device.Insert("source", MustParseElement("<vendor id='2'/>"))
	for _, wanted := range []bool{true, false} {
		if device.InsertIfAbsent("source/address", NewElement("address")) != wanted {
			t.Error("it is not", wanted)
		}
	}
	if device.Remove("source/product") != 1 {
		t.Error("nothing was removed")
	}
	want := "<hostdev managed='no'><source><vendor id='2'/><address/></source><alias name='ua-a'/></hostdev>"
	if got := device.String(); got != want {
		t.Error(got)
	}
}

func TestTheVMINameIsTheAliasWithoutKubeVirtsPrefixes(t *testing.T) {
	for _, device := range []struct{ kind, alias, want string }{
		{"disk", "ua-data", "data"},
		{"disk", "ua-gpu-data", "gpu-data"},
		{"hostdev", "ua-gpu-big", "big"},
		{"hostdev", "ua-gpu-gpu-big", "gpu-big"},
		{"hostdev", "ua-hostdevice-nic", "nic"},
		{"hostdev", "ua-sriov-net1", "net1"},
		{"hostdev", "ua-usb-host-stick", "stick"},
		{"hostdev", "ua-dra-gpu-a", "a"},
		{"hostdev", "ua-dra-hostdevice-b", "b"},
		{"hostdev", "hostdev0", "hostdev0"},
	} {
		xml := "<" + device.kind + "><alias name='" + device.alias + "'/></" + device.kind + ">"
		if got := MustParseDevice(xml).VMIName(); got != device.want {
			t.Error(device.alias, got)
		}
	}
}

func TestAnAliasWinsOverTheTargetOfAnEarlierDisk(t *testing.T) {
	domain := MustParseDomain("<domain><devices><disk id='1'><target dev='vdb'/><alias name='ua-root'/></disk>" +
		"<disk id='2'><target dev='vda'/><alias name='ua-vdb'/></disk></devices></domain>")
	for _, name := range []string{"vdb", "vda"} {
		if id, _ := domain.Disk(name).Attr("id"); id != "2" {
			t.Error(name, id)
		}
	}
}

func TestADeviceIsEditedInPlace(t *testing.T) {
	hook := Hook{OnAttachDevice: func(_ *VMI, device *Device) error {
		if device.Name() != "disk" || device.VMIName() != "data" {
			return Veto(device.VMIName())
		}
		device.Ensure("driver").SetAttr("cache", "none")
		return nil
	}}
	const disk = "<disk type=\"file\"><target dev='sda'/><alias name='ua-data'/></disk>\n"
	got, err := hook.callOnAttachDevice("{}", disk)
	if want := strings.Replace(disk, "</disk>", "<driver cache='none'/></disk>", 1); got != want || err != nil {
		t.Error(got, err)
	}
	if _, err := hook.callOnAttachDevice("{}", "<disk/>"); err != Veto("") {
		t.Error(err)
	}
	if _, err := hook.callOnAttachDevice("{}", "<disk>"); err == nil || !strings.Contains(err.Error(), "the device's XML: line 1") {
		t.Error(err)
	}
	if got, err := (&Hook{}).callOnAttachDevice("{}", disk); got != disk || err != nil {
		t.Error(got, err)
	}
}

func TestTheParametersOfAMigrationAreSetByName(t *testing.T) {
	hook := Hook{PreMigrationSource: func(_ *VMI, migration *Migration) error {
		if migration.Number("bandwidth") == 0 {
			migration.SetNumber("bandwidth", 64<<20)
		}
		if migration.Switch("allow-post-copy") {
			return errors.New("no post-copy")
		}
		migration.SetSwitch("allow-auto-converge", true)
		return nil
	}}
	migration := Migration{Parameters: []Parameter{{"bandwidth", "0"}, {"allow-post-copy", "false"}}}
	if err := hook.callPreMigrationSource("{}", &migration); err != nil {
		t.Fatal(err)
	}
	want := []Parameter{{"bandwidth", "67108864"}, {"allow-post-copy", "false"}, {"allow-auto-converge", "true"}}
	for i, parameter := range migration.Parameters {
		if parameter != want[i] {
			t.Error(parameter)
		}
	}
	if _, ok := migration.Get("unknown"); ok || len(migration.Parameters) != 3 {
		t.Error(migration)
	}
	migration.SetSwitch("allow-post-copy", true)
	if err := hook.callPreMigrationSource("{}", &migration); err == nil {
		t.Error("no error")
	}
}

func TestTheDescriptionNamesTheOptionalHookPoints(t *testing.T) {
	hook := Hook{
		Name:               "a",
		Migration:          []string{"bandwidth"},
		OnAttachDevice:     func(*VMI, *Device) error { return nil },
		PreMigrationSource: func(*VMI, *Migration) error { return nil },
	}
	want := `{"name":"a","version":"","hookPoints":[{"name":"OnAttachDevice","priority":0},` +
		`{"name":"PreMigrationSource","priority":0}],"wishes":{"paths":[],"config":[],"dirs":[],"migration":["bandwidth"]}}`
	if got := hook.Describe(); got != want {
		t.Error(got)
	}
}
