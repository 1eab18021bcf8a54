package hooks

import "strings"

// PodNetwork is a network of the pod: an entry of Multus' annotation k8s.v1.cni.cncf.io/network-status.
type PodNetwork struct {
	// Name is NAMESPACE/NAME of the NetworkAttachmentDefinition; a name of the cluster's for the default network.
	Name string
	// PodInterface is the name of the interface in the pod; it may be empty.
	PodInterface string
	// IPs are its addresses, without prefix lengths.
	IPs []string
	// MAC may be empty.
	MAC string
	// IsDefault tells the pod's default network.
	IsDefault bool
	// JSON is the whole entry.
	JSON string
}

// FactErrorKind says why a fact is not given.
type FactErrorKind int32

const (
	// FactDenied: the hook does not declare the fact, or a policy does not allow it.
	FactDenied FactErrorKind = iota
	// FactAbsent: the fact is not there, and was waited for.
	FactAbsent
	// FactUnreadable: the host cannot see the facts of the pod, or what it sees is invalid.
	FactUnreadable
)

// FactError is why a fact is not given. Its text names the fact.
type FactError struct {
	Kind FactErrorKind
	text string
}

// Error is the text.
func (e *FactError) Error() string { return e.text }

// PodAnnotation returns the value of an annotation of the pod. The host waits for it, some seconds at most.
//
// A hook declares what it reads of the pod in [Hook.PodFacts], and the operator's policy allows it.
func PodAnnotation(key string) (string, error) {
	value, _, err := pod.text("annotation", key, true)
	return value, err
}

// PodAnnotationIfSet returns the value of an annotation of the pod that is there now.
func PodAnnotationIfSet(key string) (value string, ok bool, err error) {
	return pod.text("annotation", key, false)
}

// PodLabel returns the value of a label of the pod.
func PodLabel(key string) (string, error) {
	value, _, err := pod.text("label", key, true)
	return value, err
}

// PodLabelIfSet returns the value of a label of the pod that is there now.
func PodLabelIfSet(key string) (value string, ok bool, err error) {
	return pod.text("label", key, false)
}

// PodNetworkInfo returns KubeVirt's annotation kubevirt.io/network-info, JSON.
func PodNetworkInfo() (string, error) {
	value, _, err := pod.text("network-info", "", true)
	return value, err
}

// PodNetworkInfoIfSet returns it if it is there now.
func PodNetworkInfoIfSet() (value string, ok bool, err error) {
	return pod.text("network-info", "", false)
}

// PodNetworks returns the networks with this name: NAMESPACE/NAME of a NetworkAttachmentDefinition, without NAMESPACE
// that of the virtual machine. There is at least one.
func PodNetworks(name string) ([]PodNetwork, error) { return pod.networks(name, true) }

// PodNetworksIfSet returns those that are there now; there may be none.
func PodNetworksIfSet(name string) ([]PodNetwork, error) { return pod.networks(name, false) }

// PodDefaultNetwork returns the pod's default network.
func PodDefaultNetwork() (PodNetwork, error) {
	network, _, err := pod.defaultNetwork(true)
	return network, err
}

// PodDefaultNetworkIfSet returns it if it is there now.
func PodDefaultNetworkIfSet() (network PodNetwork, ok bool, err error) {
	return pod.defaultNetwork(false)
}

// podFunctions are what the interface pod offers; apart from those of the host, so that a hook that does not use them
// does not import it.
type podFunctions struct {
	text           func(kind, key string, wait bool) (string, bool, error)
	networks       func(name string, wait bool) ([]PodNetwork, error)
	defaultNetwork func(wait bool) (PodNetwork, bool, error)
}

// FakePod is what the functions about the pod answer in tests.
type FakePod struct {
	// Annotations and Labels are the pod's.
	Annotations, Labels map[string]string
	// Networks are its networks.
	Networks []PodNetwork
}

// Install makes this the pod, and returns a function that ends it, for testing.T.Cleanup.
func (f *FakePod) Install() (end func()) {
	before := pod
	pod = podFunctions{text: f.text, networks: f.networks, defaultNetwork: f.defaultNetwork}
	return func() { pod = before }
}

// denied is the host's error about a fact that the hook under test does not declare.
func denied(fact string) error {
	hook := hookUnderTest()
	if hook == nil || hook.declares(fact) {
		return nil
	}
	return &FactError{FactDenied, fact + " is not in the hook's PodFacts: add \"" + fact + "\""}
}

func (f *FakePod) text(kind, key string, wait bool) (string, bool, error) {
	values, fact := f.Annotations, "annotations/"+key
	switch kind {
	case "label":
		values, fact = f.Labels, "labels/"+key
	case "network-info":
		key, fact = "kubevirt.io/network-info", "network-info"
	}
	if err := denied(fact); err != nil {
		return "", false, err
	}
	value, ok := values[key]
	if !ok && wait {
		return "", false, &FactError{FactAbsent, kind + " " + key + " is not there"}
	}
	return value, ok, nil
}

func (f *FakePod) networks(name string, wait bool) ([]PodNetwork, error) {
	if namespace, ok := host.invocation("namespace"); ok && !strings.Contains(name, "/") {
		name = namespace + "/" + name
	}
	if err := denied("network-status/" + name); err != nil {
		return nil, err
	}
	var found []PodNetwork
	for _, network := range f.Networks {
		if network.Name == name {
			found = append(found, network)
		}
	}
	if found == nil && wait {
		return nil, &FactError{FactAbsent, "the network " + name + " is not there"}
	}
	return found, nil
}

func (f *FakePod) defaultNetwork(wait bool) (PodNetwork, bool, error) {
	if err := denied("default-network"); err != nil {
		return PodNetwork{}, false, err
	}
	for _, network := range f.Networks {
		if network.IsDefault {
			return network, true, nil
		}
	}
	if wait {
		return PodNetwork{}, false, &FactError{FactAbsent, "the default network is not there"}
	}
	return PodNetwork{}, false, nil
}
