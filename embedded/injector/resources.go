package injector

import (
	"cmp"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/linkerd-lite/linkerd-lite/internal/quantity"
)

const (
	cpuRequestAnnotation = "config.linkerd.io/proxy-cpu-request"
	cpuLimitAnnotation   = "config.linkerd.io/proxy-cpu-limit"
	cpuRatioAnnotation   = "config.linkerd.io/proxy-cpu-ratio-limit"
)

func (s *settings) resources() corev1.ResourceRequirements {
	var r corev1.ResourceRequirements
	for _, setting := range []struct {
		annotation string
		name       corev1.ResourceName
		list       *corev1.ResourceList
	}{
		{cpuRequestAnnotation, corev1.ResourceCPU, &r.Requests},
		{cpuLimitAnnotation, corev1.ResourceCPU, &r.Limits},
		{"config.linkerd.io/proxy-memory-request", corev1.ResourceMemory, &r.Requests},
		{"config.linkerd.io/proxy-memory-limit", corev1.ResourceMemory, &r.Limits},
		{"config.linkerd.io/proxy-ephemeral-storage-request", corev1.ResourceEphemeralStorage, &r.Requests},
		{"config.linkerd.io/proxy-ephemeral-storage-limit", corev1.ResourceEphemeralStorage, &r.Limits},
	} {
		value, ok := s.lookup(setting.annotation)
		if !ok {
			continue
		}
		parsed, err := parseQuantity(value)
		if err != nil {
			s.warn("annotation %s: %.100q is not a quantity, none is used", setting.annotation, value)
			continue
		}
		if *setting.list == nil {
			*setting.list = corev1.ResourceList{}
		}
		(*setting.list)[setting.name] = parsed
	}
	return r
}

func parseQuantity(text string) (resource.Quantity, error) {
	if err := quantity.Check(text); err != nil {
		return resource.Quantity{}, err
	}
	return resource.ParseQuantity(text)
}

// workers are the variables for the number of the proxy's threads: as many as
// the limit of CPUs has, else that part of the machine's CPUs that the ratio
// says, but at least one. A request counts only if there is no limit. Parts of
// a CPU count as one.
func (s *settings) workers(set func(name, value string)) {
	least, most := "1", s.cores(cpuLimitAnnotation)
	if requested := s.cores(cpuRequestAnnotation); requested != "" && most == "" {
		least = requested
	}
	set("CORES", cmp.Or(most, least)) // for proxies that do not know the others
	set("CORES_MIN", least)
	set("CORES_MAX", most)
	ratio, ok := s.lookup(cpuRatioAnnotation)
	if !ok {
		return
	}
	if parsed, err := strconv.ParseFloat(ratio, 64); err != nil || !(parsed > 0 && parsed <= 1) {
		s.warn("annotation %s: %.100q is not a number above 0 and up to 1, none is used", cpuRatioAnnotation, ratio)
	} else if most == "" {
		set("CORES_MAX_RATIO", strconv.FormatFloat(parsed, 'f', -1, 64))
	}
}

// cores is the quantity of an annotation rounded up, or nothing. What is not a
// quantity is warned of by resources.
func (s *settings) cores(annotation string) string {
	value, ok := s.lookup(annotation)
	if !ok {
		return ""
	}
	parsed, err := parseQuantity(value)
	if err != nil {
		return ""
	}
	parsed.RoundUp(resource.Scale(0))
	if n, exact := parsed.AsInt64(); exact && n > 0 {
		return strconv.FormatInt(n, 10)
	}
	return ""
}
