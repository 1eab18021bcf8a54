package hooks

import (
	"strings"
	"testing"
)

const network = `# of the owner
network: # all of it
  version: 2
  ethernets:
    # the first
    eth0: # primary
      match: {macaddress: '02:00'}
      dhcp4: yes  # please
      addresses:
      - 10.0.0.2/24
      # gone
    'eth1.5':
      mtu: 1500

  # the end
`

// twice is a text after an edit that is made twice.
func twice(t *testing.T, text string, edit func(*YAML) error) (string, error) {
	t.Helper()
	yaml := ParseYAML(text)
	if err := edit(yaml); err != nil {
		return "", err
	}
	once := yaml.String()
	if err := edit(yaml); err != nil || yaml.String() != once {
		t.Errorf("a second run changes %q to %q (%v)", once, yaml.String(), err)
	}
	return once, nil
}

func TestAnItemJoinsTheListAndNothingElseChanges(t *testing.T) {
	const item = `["touch","/x"]`
	for before, after := range map[string]string{
		"":                                      "runcmd:\n  - " + item + "\n",
		"a: 1":                                  "a: 1\nruncmd:\n  - " + item + "\n",
		"---\na: 1\n":                           "---\na: 1\nruncmd:\n  - " + item + "\n",
		"runcmd: [a]\n":                         "runcmd: [a, " + item + "]\n",
		"runcmd: [ ]  # none\n":                 "runcmd: [ " + item + "]  # none\n",
		"runcmd: ['it''s ]', \"a\\\"]\"] # ]\n": "runcmd: ['it''s ]', \"a\\\"]\", " + item + "] # ]\n",
		"runcmd:\n- a\nx: 1\n":                  "runcmd:\n- a\n- " + item + "\nx: 1\n",
		"runcmd:\nx: 1\n":                       "runcmd:\n  - " + item + "\nx: 1\n",
		"\"runcmd\" :\n    - a\n":               "\"runcmd\" :\n    - a\n    - " + item + "\n",
		"runcmd:\r\n  - a\r\n":                  "runcmd:\r\n  - a\r\n  - " + item + "\r\n",
		"runcmd:\n  # 1\n  - |\n    #!/bin/sh\n    # last\n\n# pw\np: x\n": "runcmd:\n  # 1\n  - |\n    #!/bin/sh\n    # last\n  - " +
			item + "\n\n# pw\np: x\n",
	} {
		got, err := twice(t, before, func(yaml *YAML) error { return yaml.Add("runcmd", []string{"touch", "/x"}) })
		if got != after || err != nil {
			t.Errorf("got %q (%v), want %q", got, err, after)
		}
	}
}

func TestAnItemThatIsThereIsToldFromOneThatContainsIt(t *testing.T) {
	for _, c := range []struct {
		before string
		item   any
		after  string
	}{
		{"[8080]", 80, "[8080, 80]"},
		{"[80]", 80, "[80]"},
		{"[80]", "80", `[80, "80"]`},
		{"[vim]", "vim", "[vim]"},
		{"['vim', x]", "vim", "['vim', x]"},
		{"[vim-nox]", "vim", `[vim-nox, "vim"]`},
		{"[[a, b]]", "a", `[[a, b], "a"]`},
		{"[{a: b}]", "b", `[{a: b}, "b"]`},
		{"['a, b']", "b", `['a, b', "b"]`},
		{"[a] # b", "b", `[a, "b"] # b`},
		{"\n  - vim # mine", "vim", "\n  - vim # mine"},
		{"\n  - 8080", 80, "\n  - 8080\n  - 80"},
		{"\n  - vim: 1", "vim: 1", "\n  - vim: 1\n  - \"vim: 1\""},
		{"\n  - - vim", "vim", "\n  - - vim\n  - \"vim\""},
	} {
		got, err := twice(t, "list: "+c.before+"\n", func(yaml *YAML) error { return yaml.Add("list", c.item) })
		if want := "list: " + c.after + "\n"; got != want || err != nil {
			t.Errorf("got %q (%v), want %q", got, err, want)
		}
	}
}

func TestWhatCannotTakeAnItemSafelyIsRefused(t *testing.T) {
	for _, bad := range []string{
		"runcmd: x", "runcmd: &a\n  - b", "runcmd: [a,\n  b]", "runcmd: |\n  x", "runcmd:\n  a: b", "runcmd: {a: b}",
		"{a: b}", "a: 1\n---\nb: 1", "runcmd: [a] b", "runcmd:\n  - a\n b", "runcmd:\nruncmd:",
	} {
		if got, err := twice(t, bad+"\n", func(yaml *YAML) error { return yaml.Add("runcmd", "x") }); err == nil {
			t.Errorf("%q became %q", bad, got)
		}
	}
}

func TestAKeyIsSetWhereItIsAndCommentsStay(t *testing.T) {
	for _, c := range []struct {
		path          string
		value         any
		before, after string
	}{
		{"network.version", 1, "version: 2", "version: 1"},
		{"network.ethernets.eth0.dhcp4", false, "dhcp4: yes  # please", "dhcp4: false  # please"},
		{"network.ethernets['eth1.5'].mtu", 9000, "mtu: 1500", "mtu: 9000"},
		{
			"network.ethernets['eth1.5'].nameservers", Members{{"addresses", []string{"1.1.1.1"}}}, "mtu: 1500\n",
			"mtu: 1500\n      nameservers:\n        addresses:\n          - \"1.1.1.1\"\n",
		},
		{"network.ethernets.eth0.addresses", []any{"a"}, "addresses:\n      - 10.0.0.2/24\n", "addresses:\n        - \"a\"\n"},
		{"network.renderer", "networkd", "mtu: 1500\n", "mtu: 1500\n  renderer: \"networkd\"\n"},
		{"network.version", 2, "version: 2", "version: 2"},
	} {
		got, err := twice(t, network, func(yaml *YAML) error { return yaml.Set(c.path, c.value) })
		if want := strings.Replace(network, c.before, c.after, 1); got != want || err != nil {
			t.Errorf("%s: got %s (%v)", c.path, got, err)
		}
	}
}

func TestKeysAndTextsAreReadAndRemoved(t *testing.T) {
	yaml := ParseYAML(network)
	if text, ok := yaml.Text("network.ethernets.eth0.dhcp4"); text != "yes" || !ok {
		t.Error(text, ok)
	}
	if _, ok := yaml.Text("network.ethernets.eth0"); ok {
		t.Error("a mapping is a text")
	}
	if found, err := yaml.Contains("network.ethernets.eth2.mtu"); found || err != nil {
		t.Error(found, err)
	}
	for _, there := range []bool{true, false} {
		if removed, err := yaml.Remove("network.ethernets.eth0"); removed != there || err != nil {
			t.Error(removed, err)
		}
	}
	for _, path := range []string{"", "a..b", ".a", "a.", "a[0]", "a/b", "a['b"} {
		if _, err := yaml.Contains(path); err == nil || !strings.Contains(err.Error(), "is not a path") {
			t.Error(path, err)
		}
	}
}

func TestUserDataIsEditedAndOtherwiseKept(t *testing.T) {
	cloudInit := CloudInit{Documents: []Document{{"user-data", "#cloud-config\n# mine\npackages: [vim]\n"}}}
	edit := func(config *CloudConfig) error {
		for _, err := range []error{
			config.AddPackage("qemu-guest-agent"),
			config.AddUser("ops", Members{{"lock_passwd", true}}),
			config.AddFile("/etc/x", "0644", "a \"b\"\n"),
			config.AddRunCommand("systemctl", "start", "x"),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	}
	for range 2 {
		if err := cloudInit.EditCloudConfig(edit); err != nil {
			t.Fatal(err)
		}
	}
	want := "#cloud-config\n# mine\npackages: [vim, \"qemu-guest-agent\"]\nusers:\n  - default\n  - name: \"ops\"\n" +
		"    lock_passwd: true\nwrite_files:\n  - path: \"/etc/x\"\n    permissions: \"0644\"\n" +
		"    content: \"a \\\"b\\\"\\n\"\nruncmd:\n  - [\"systemctl\",\"start\",\"x\"]\n"
	if got, _ := cloudInit.Document("user-data"); got != want {
		t.Error(got)
	}
	cloudInit.SetDocument("network-data", "a: x\n")
	err := cloudInit.EditNetworkData(func(network *YAML) error {
		if err := network.Set("b", 1); err != nil {
			t.Error(err)
		}
		return network.Set("a.b", 1)
	})
	if got, _ := cloudInit.Document("network-data"); got != "a: x\n" || err == nil ||
		err.Error() != "network-data, line 1: a is not a mapping that a key can be added to" {
		t.Error(got, err)
	}
	if _, err := ParseCloudConfig("#!/bin/sh\n"); err == nil || !strings.Contains(err.Error(), `begins with "#!/bin/sh"`) {
		t.Error(err)
	}
}

func TestFilesWithRelativePathsOrMalformedPermissionsAreRefused(t *testing.T) {
	for _, c := range []struct{ path, permissions, reason string }{
		{"etc/x", "0644", "its path is not absolute"},
		{"", "0644", "its path is not absolute"},
		{"/etc/\x00x", "0644", "its path contains a NUL character"},
		{"/etc/x", "", "three or four octal digits"},
		{"/etc/x", "rw-r--r--", "three or four octal digits"},
		{"/etc/x", "0o644", "three or four octal digits"},
		{"/etc/x", "0888", "three or four octal digits"},
	} {
		config, _ := ParseCloudConfig("")
		err := config.AddFile(c.path, c.permissions, "")
		if err == nil || !strings.Contains(err.Error(), c.reason) || config.String() != "#cloud-config\n" {
			t.Error(c, err, config.String())
		}
	}
}
