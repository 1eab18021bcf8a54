package main

import (
	"errors"
	"fmt"
	"strings"

	"virt-hook/hooks"
)

// podFacts vetoes with facts about the pod.
func podFacts() error {
	annotation, err := hooks.PodAnnotation("a.example/b")
	if err != nil {
		return err
	}
	if _, ok, err := hooks.PodAnnotationIfSet("a.example/none"); ok || err != nil {
		return fmt.Errorf("an annotation that is not there: %v %v", ok, err)
	}
	lab, err := hooks.PodNetworks("infra/lab")
	if err != nil {
		return err
	}
	cluster, err := hooks.PodDefaultNetwork()
	if err != nil || !cluster.IsDefault {
		return fmt.Errorf("the default network: %v", err)
	}
	var denied, absent *hooks.FactError
	if _, err := hooks.PodLabel("rack"); !errors.As(err, &denied) || denied.Kind != hooks.FactDenied {
		return fmt.Errorf("a label that is not declared: %v", err)
	}
	if _, err := hooks.PodNetworkInfo(); !errors.As(err, &absent) || absent.Kind != hooks.FactAbsent {
		return fmt.Errorf("a fact that is not there: %v", err)
	}
	if network, ok, err := hooks.PodDefaultNetworkIfSet(); !ok || err != nil || network.Name != cluster.Name {
		return fmt.Errorf("the default network now: %v %v %v", network, ok, err)
	}
	if none, err := hooks.PodNetworksIfSet("infra/none"); len(none) != 0 || err != nil {
		return fmt.Errorf("a network that is not there now: %v %v", none, err)
	}
	if info, ok, err := hooks.PodNetworkInfoIfSet(); ok || err != nil {
		return fmt.Errorf("network-info that is not there now: %v %v", info, err)
	}
	last := lab[len(lab)-1]
	return hooks.Veto(strings.Join([]string{annotation, lab[0].MAC, last.MAC, lab[0].IPs[len(lab[0].IPs)-1], cluster.Name}, " "))
}
