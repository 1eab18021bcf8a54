package hooks

import (
	"errors"
	"testing"
)

func TestNetworksAreFoundByNameAndInTheVirtualMachinesNamespace(t *testing.T) {
	host := FakeHost{Invocation: map[string]string{"namespace": "infra"}}
	t.Cleanup(host.Install())
	pod := FakePod{Networks: []PodNetwork{{Name: "cbr0", IsDefault: true}, {Name: "infra/lab", MAC: "02:00:00:00:00:01"}}}
	t.Cleanup(pod.Install())
	for _, name := range []string{"lab", "infra/lab"} {
		if found, err := PodNetworks(name); err != nil || found[0].MAC != "02:00:00:00:00:01" {
			t.Error(name, found, err)
		}
	}
	if network, ok, err := PodDefaultNetworkIfSet(); !ok || err != nil || network.Name != "cbr0" {
		t.Error(network, ok, err)
	}
}

func TestAFactThatIsNotThereIsAnErrorOnlyForWhoWaits(t *testing.T) {
	var absent *FactError
	isAbsent := func(err error) bool { return errors.As(err, &absent) && absent.Kind == FactAbsent }
	if _, err := PodNetworks("infra/lab"); !isAbsent(err) {
		t.Error(err)
	}
	if _, err := PodDefaultNetwork(); !isAbsent(err) {
		t.Error(err)
	}
	if _, err := PodNetworkInfo(); !isAbsent(err) {
		t.Error(err)
	}
	if found, err := PodNetworksIfSet("infra/lab"); len(found) != 0 || err != nil {
		t.Error(found, err)
	}
	if _, ok, err := PodDefaultNetworkIfSet(); ok || err != nil {
		t.Error(ok, err)
	}
	if _, ok, err := PodNetworkInfoIfSet(); ok || err != nil {
		t.Error(ok, err)
	}
}
