package hooks

import (
	"errors"
	"slices"
)

// Native calls a hook in tests as the host does, without WebAssembly. A call fails as the hook fails, and where the
// host would deny what the hook does because its description does not declare it. Functions that edit are called twice:
// the second run must change nothing.
type Native struct {
	// Hook is the hook.
	Hook *Hook
	// Host answers [Config] and [Invocation] and gets the lines of [Log]; nil for a host without configuration and facts.
	Host *FakeHost
	// Pod has the facts that the functions about the pod return; nil for a pod without facts.
	Pod *FakePod
}

// hookUnderTest is the hook whose description holds: the one that is called, or the exported one.
func hookUnderTest() *Hook {
	if called != nil {
		return called
	}
	return exported
}

// called is the hook of the [Native] that runs.
var called *Hook

func (n Native) run(call func() error) error {
	before := called
	called = n.Hook
	defer func() { called = before }()
	host, pod := n.Host, n.Pod
	if host == nil {
		host = &FakeHost{}
	}
	if pod == nil {
		pod = &FakePod{}
	}
	defer host.Install()()
	defer pod.Install()()
	return call()
}

// twice calls an edit, and again with its result.
func (n Native) twice(xml string, edit func(string) (string, error)) (changed string, err error) {
	err = n.run(func() error {
		if changed, err = edit(xml); err != nil {
			return err
		}
		again, err := edit(changed)
		if err == nil && again != changed {
			err = errors.New("a second run changes what the first one made: " + changed + " becomes " + again)
		}
		return err
	})
	return changed, err
}

// PreStart calls the hook point with a VMI as JSON.
func (n Native) PreStart(vmi string) error {
	return n.run(func() error { return n.Hook.callPreStart(vmi) })
}

// PreCloudInitISO calls the hook point, which edits the data in place.
func (n Native) PreCloudInitISO(vmi string, cloudInit *CloudInit) error {
	return n.run(func() error { return n.Hook.callPreCloudInitISO(vmi, cloudInit) })
}

// OnDefineDomain calls the hook point, and returns the domain's XML afterwards.
func (n Native) OnDefineDomain(vmi, xml string) (string, error) {
	changed, err := n.twice(xml, func(xml string) (string, error) { return n.Hook.callOnDefineDomain(vmi, xml) })
	if err != nil {
		return changed, err
	}
	return changed, n.checkDocuments(xml, changed, func(root *Element) *Element { return root })
}

// OnAttachDevice calls the hook point, and returns the device's XML afterwards.
func (n Native) OnAttachDevice(vmi, xml string) (string, error) {
	changed, err := n.twice(xml, func(xml string) (string, error) { return n.Hook.callOnAttachDevice(vmi, xml) })
	if err != nil {
		return changed, err
	}
	// Paths begin at the domain.
	return changed, n.checkDocuments(xml, changed, func(device *Element) *Element {
		domain := NewElement("domain")
		domain.Append(NewElement("devices")).Append(device)
		return domain
	})
}

func (n Native) checkDocuments(before, after string, domain func(*Element) *Element) error {
	old, err := parseDocument(before)
	if err != nil {
		return err
	}
	changed, err := parseDocument(after)
	if err != nil {
		return err
	}
	return catchPanic(func() error { return checkPaths(n.Hook.declaredPaths(), domain(old.root), domain(changed.root)) })
}

// PreMigrationSource calls the hook point, which edits the parameters in place.
func (n Native) PreMigrationSource(vmi string, migration *Migration) error {
	before := Migration{append([]Parameter(nil), migration.Parameters...)}
	if err := n.run(func() error { return n.Hook.callPreMigrationSource(vmi, migration) }); err != nil {
		return err
	}
	for _, parameter := range migration.Parameters {
		if value, ok := before.Get(parameter.Name); ok && value == parameter.Value || slices.Contains(n.Hook.Migration, parameter.Name) {
			continue
		}
		return errors.New("the hook changes the parameter " + parameter.Name + " of the migration, which it does not declare: add \"" +
			parameter.Name + "\" to Migration")
	}
	return nil
}

// Shutdown calls the hook point.
func (n Native) Shutdown() error { return n.run(n.Hook.callShutdown) }
