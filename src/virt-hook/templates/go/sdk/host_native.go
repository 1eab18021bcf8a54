//go:build !wasip1

package hooks

// host is nothing in a native test, unless the test installs a [FakeHost].
var host = hostFunctions{
	log:        func(_ Level, message string) { println(message) },
	config:     func(string) (string, bool) { return "", false },
	invocation: func(string) (string, bool) { return "", false },
}
