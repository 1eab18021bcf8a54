package hooks

import "strings"

// Document is a text of cloud-init's: user-data, network-data or meta-data.
type Document struct {
	Name, Text string
}

// CloudInit is the cloud-init data, to be changed in place.
type CloudInit struct {
	// DataSource is noCloud or configDrive.
	DataSource string
	// Documents are all documents, in the host's order.
	Documents []Document
}

// Document returns a document's text.
func (c *CloudInit) Document(name string) (text string, ok bool) {
	for _, document := range c.Documents {
		if document.Name == name {
			return document.Text, true
		}
	}
	return "", false
}

// SetDocument replaces a document's text, or adds the document.
func (c *CloudInit) SetDocument(name, text string) {
	for i := range c.Documents {
		if c.Documents[i].Name == name {
			c.Documents[i].Text = text
			return
		}
	}
	c.Documents = append(c.Documents, Document{Name: name, Text: text})
}

// EditCloudConfig edits the #cloud-config user data. Comments and everything else are kept; if the edit fails, the user
// data is not changed.
func (c *CloudInit) EditCloudConfig(edit func(*CloudConfig) error) error {
	text, _ := c.Document("user-data")
	config, err := ParseCloudConfig(text)
	if err != nil {
		return err
	}
	if err := edit(config); err != nil {
		return CloudInitError("user-data, " + err.Error())
	}
	c.SetDocument("user-data", config.String())
	return nil
}

// EditNetworkData edits the network data as YAML, in the same way.
func (c *CloudInit) EditNetworkData(edit func(*YAML) error) error {
	text, _ := c.Document("network-data")
	network := ParseYAML(text)
	if err := edit(network); err != nil {
		return CloudInitError("network-data, " + err.Error())
	}
	c.SetDocument("network-data", network.String())
	return nil
}

// CloudConfig is a #cloud-config document: YAML that begins with that line.
type CloudConfig struct {
	*YAML
}

// ParseCloudConfig reads #cloud-config user data. Empty user data is an empty document.
func ParseCloudConfig(userData string) (*CloudConfig, error) {
	if userData == "" {
		return &CloudConfig{ParseYAML("#cloud-config\n")}, nil
	}
	first, _, _ := strings.Cut(userData, "\n")
	first = strings.TrimRight(first, " \t\r")
	if first != "#cloud-config" {
		if runes := []rune(first); len(runes) > 40 {
			first = string(runes[:40])
		}
		return nil, CloudInitError("the user data is no #cloud-config document: it begins with " + quoteJSON(first))
	}
	return &CloudConfig{ParseYAML(userData)}, nil
}

// AddRunCommand adds a command to runcmd: a program and its arguments, run without a shell.
func (c *CloudConfig) AddRunCommand(command ...string) error {
	return c.Add("runcmd", command)
}

// AddFile adds a file to write_files. The path is absolute, and the permissions are three or four octal digits, as in
// 0644.
func (c *CloudConfig) AddFile(path, permissions, content string) error {
	isNotOctal := func(digit rune) bool { return digit < '0' || digit > '7' }
	reason := ""
	if !strings.HasPrefix(path, "/") {
		reason = "its path is not absolute"
	} else if strings.Contains(path, "\x00") {
		reason = "its path contains a NUL character"
	} else if len(permissions) < 3 || len(permissions) > 4 || strings.ContainsFunc(permissions, isNotOctal) {
		reason = "its permissions are not three or four octal digits, as in 0600"
	}
	if reason != "" {
		return CloudInitError("the file " + quoteJSON(path) + ": " + reason)
	}
	return c.Add("write_files", Members{{"path", path}, {"permissions", permissions}, {"content", content}})
}

// AddPackage adds a package to packages, which the guest installs at its first boot.
func (c *CloudConfig) AddPackage(name string) error { return c.Add("packages", name) }

// AddUser adds a user with these members of cloud-init's users (groups, sudo, ssh_authorized_keys, ...). The image's own
// user is kept: a list made here begins with default.
func (c *CloudConfig) AddUser(name string, members Members) error {
	present, err := c.Contains("users")
	if err != nil {
		return err
	}
	if !present {
		if err := c.addLines("users", "default", "default", func(pad string) []string { return []string{pad + "- default"} }); err != nil {
			return err
		}
	}
	return c.Add("users", append(Members{{"name", name}}, members...))
}
