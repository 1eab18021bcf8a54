package hooks

import "slices"

// Level says how much a log line matters.
type Level int32

// The levels of log lines.
const (
	Debug Level = iota
	Info
	Warn
	Error
)

// Log writes one line to the host's log, attributed to this hook.
func Log(level Level, message string) { host.log(level, message) }

// Config returns what hook.yaml configures for a key that the hook declares.
func Config(key string) (value string, ok bool) { return host.config(key) }

// Invocation returns a fact about this call: reason (boot, migration-target, hotplug, migration-source, shutdown), hook-point, hook, namespace,
// name, uid, domain or host.
func Invocation(key string) (value string, ok bool) { return host.invocation(key) }

// hostFunctions are what the host offers a running hook.
type hostFunctions struct {
	log                func(level Level, message string)
	config, invocation func(key string) (string, bool)
}

// FakeHost is what [Config], [Invocation] and [Log] use in tests.
type FakeHost struct {
	// Config and Invocation are what the host knows.
	Config, Invocation map[string]string
	// Logged are the lines that were logged.
	Logged []string
}

// Install makes this the host, and returns a function that ends it, for testing.T.Cleanup. It panics if the hook does not
// declare a key of Config, since it would not get the value.
func (f *FakeHost) Install() (end func()) {
	if hook := hookUnderTest(); hook != nil {
		for key := range f.Config {
			if !slices.Contains(hook.ConfigKeys, key) {
				panic("the hook does not declare the configuration key " + key + ": add \"" + key + "\" to ConfigKeys")
			}
		}
	}
	before := host
	host = hostFunctions{
		log:        func(_ Level, message string) { f.Logged = append(f.Logged, message) },
		config:     func(key string) (string, bool) { value, ok := f.Config[key]; return value, ok },
		invocation: func(key string) (string, bool) { value, ok := f.Invocation[key]; return value, ok },
	}
	return func() { host = before }
}
