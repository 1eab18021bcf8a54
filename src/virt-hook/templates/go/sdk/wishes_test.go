package hooks

import (
	"errors"
	"strings"
	"testing"
)

const wishedDomain = `<domain>
  <name>vm</name>
  <devices>
    <disk type='file'><target dev='vda'/><driver io='native'/></disk>
    <disk type='file'><target dev='vdb'/><driver io='threads'/></disk>
  </devices>
</domain>
`

func define(edit func(*Domain), paths ...string) error {
	hook := Hook{Paths: paths, OnDefineDomain: func(_ *VMI, domain *Domain) error { edit(domain); return nil }}
	_, err := Native{Hook: &hook}.OnDefineDomain("{}", wishedDomain)
	return err
}

func mustPass(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func mustContain(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("%v does not contain %s", err, part)
	}
}

func TestAChangeNeedsAPathThatCoversIt(t *testing.T) {
	title := func(domain *Domain) { domain.Set("title", "a") }
	mustContain(t, define(title), `add "/domain/title" to Paths`)
	mustPass(t, define(title, "/domain/title"))
	watchdog := func(domain *Domain) {
		domain.InsertIfAbsent("devices/watchdog", MustParseElement("<watchdog model='itco'><alias name='ua-w'/></watchdog>"))
	}
	for _, paths := range [][]string{nil, {"/domain/devices/watchdog"}, {"/domain/devices/*", "/domain/devices/watchdog/alias"}} {
		mustContain(t, define(watchdog, paths...), `add "/domain/devices/watchdog/**"`)
	}
	mustPass(t, define(watchdog, "/domain/devices/watchdog/**"))
	mustPass(t, define(watchdog, "/domain/devices/watchdog", "/domain/devices/watchdog/alias"))
	pin := func(domain *Domain) { domain.Set("cputune/iothreadpin[@iothread='1']/@cpuset", "3") }
	mustPass(t, define(pin, "/domain/cputune/iothreadpin"))
	mustContain(t, define(pin, "/domain/cputune/shares"), `add "/domain/cputune/**"`)
	queues := func(domain *Domain) { domain.Set("devices/disk[target/@dev='vdb']/driver/@queues", "2") }
	for _, path := range []string{"disk[target/@dev='vdb']/driver/@queues", "disk[2]/driver/@*", "*/*/@queues", "**/driver/**", "disk/driver"} {
		mustPass(t, define(queues, "/domain/devices/"+path))
	}
	for _, path := range []string{"disk[target/@dev='vda']/driver/@queues", "disk/driver/@io", "disk/*", "disk[1]/**"} {
		mustContain(t, define(queues, "/domain/devices/"+path), `add "/domain/devices/disk/driver/@queues"`)
	}
	removal := func(domain *Domain) { domain.Remove("devices/disk[target/@dev='vdb']") }
	mustContain(t, define(removal, "/domain/devices"), `add "/domain/devices/disk/**"`)
	mustPass(t, define(removal, "/domain/devices/disk[2]/**"))
	mustPass(t, define(func(domain *Domain) { domain.AddQEMUArgs("-x") }, "/domain/qemu:commandline/**"))
	mustContain(t, define(title, "]"), "path `]`")
}

func TestAPathMayHaveConditions(t *testing.T) {
	hook := Hook{
		Paths: []string{"/domain/title"},
		ConditionedPaths: []ConditionedPath{
			{Path: "/domain/devices/serial/log/@file", Below: "/logs", Matches: `.*\.log`},
			{Path: "/domain/iothreads", OneOf: []string{"1", "2"}, AtMost: Maximum(0)},
		},
		OnDefineDomain: func(_ *VMI, domain *Domain) error {
			domain.Set("iothreads", "2")
			return nil
		},
	}
	want := `"paths":["/domain/title",{"path":"/domain/devices/serial/log/@file","below":"/logs","matches":".*\\.log"},` +
		`{"path":"/domain/iothreads","one-of":["1","2"],"at-most":0}]`
	if description := hook.Describe(); !strings.Contains(description, want) {
		t.Error(description)
	}
	_, err := Native{Hook: &hook}.OnDefineDomain("{}", wishedDomain)
	mustPass(t, err)
}

func TestASecondRunMustChangeNothing(t *testing.T) {
	mustContain(t, define(func(domain *Domain) { domain.Append(NewElement("x")) }, "/domain/x"), "a second run changes")
}

func TestADeviceIsCoveredByPathsOfADomain(t *testing.T) {
	hook := Hook{Paths: []string{"/domain/devices/disk/driver/@io"}, OnAttachDevice: func(vmi *VMI, device *Device) error {
		name, _ := vmi.Get("attribute").Text()
		device.Set("driver/@"+name, "x")
		return nil
	}}
	attach := func(attribute string) error {
		const disk = "<disk><target dev='sda'/><driver name='qemu'/></disk>"
		_, err := Native{Hook: &hook}.OnAttachDevice(`{"attribute": "`+attribute+`"}`, disk)
		return err
	}
	mustPass(t, attach("io"))
	mustContain(t, attach("cache"), `add "/domain/devices/disk/driver/@cache"`)
}

func TestWhatTheHookReadsMustBeDeclared(t *testing.T) {
	var err error
	hook := Hook{
		ConfigKeys: []string{"a"},
		PodFacts:   []string{"labels/a*z", "network-status/*/lab"},
		PreStart: func(vmi *VMI) error {
			for _, key := range vmi.Get("labels").Items() {
				name, _ := key.Text()
				if _, err = PodLabel(name); err != nil {
					return err
				}
			}
			return nil
		},
	}
	native := Native{Hook: &hook, Host: &FakeHost{Config: map[string]string{"a": "1"}}}
	native.Pod = &FakePod{Labels: map[string]string{"abz": "", "b": ""}}
	mustPass(t, native.PreStart(`{"labels": ["abz"]}`))
	err = native.PreStart(`{"labels": ["b"]}`)
	mustContain(t, err, `add "labels/b"`)
	var fact *FactError
	if !errors.As(err, &fact) || fact.Kind != FactDenied {
		t.Error(err)
	}
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, `add "b" to ConfigKeys`) {
			t.Error(text)
		}
		if called != nil {
			t.Error("the hook of a failed call stays")
		}
	}()
	native.Host.Config["b"] = "2"
	mustPass(t, native.PreStart("{}"))
}

func TestAParameterOfAMigrationMustBeDeclared(t *testing.T) {
	hook := Hook{Migration: []string{"bandwidth"}, PreMigrationSource: func(vmi *VMI, migration *Migration) error {
		name, _ := vmi.Get("set").Text()
		migration.SetNumber(name, 7)
		return nil
	}}
	tune := func(name string) error {
		return Native{Hook: &hook}.PreMigrationSource(`{"set": "`+name+`"}`, &Migration{[]Parameter{{"bandwidth", "0"}, {"max-downtime", "300"}}})
	}
	mustPass(t, tune("bandwidth"))
	mustContain(t, tune("max-downtime"), `add "max-downtime" to Migration`)
}

func TestPatternsOfFacts(t *testing.T) {
	for _, fit := range [][2]string{{"a", "a"}, {"labels/*", "labels/x"}, {"*/b/*", "a/b/b/c"}, {"a*", "a"}} {
		if !fits(fit[0], fit[1]) {
			t.Error(fit)
		}
	}
	for _, other := range [][2]string{{"a", "ab"}, {"a*b", "abc"}, {"labels/*", "label"}} {
		if fits(other[0], other[1]) {
			t.Error(other)
		}
	}
}
