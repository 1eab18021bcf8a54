//go:build !wasip1

package hooks

// pod has no facts in a native test, unless the test installs a [FakePod].
var pod = podFunctions{
	text: func(kind, key string, wait bool) (string, bool, error) {
		return (&FakePod{}).text(kind, key, wait)
	},
	networks:       func(name string, wait bool) ([]PodNetwork, error) { return (&FakePod{}).networks(name, wait) },
	defaultNetwork: func(wait bool) (PodNetwork, bool, error) { return (&FakePod{}).defaultNetwork(wait) },
}
