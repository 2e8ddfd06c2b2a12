// Package series reads the metrics of a registry.
package series

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Sum adds up the series of a name that have all of the labels: values of
// counters and gauges, counts of histograms. It returns false if there are none.
func Sum(tb testing.TB, from prometheus.Gatherer, name string, labels map[string]string) (sum float64, found bool) {
	tb.Helper()
	families, err := from.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if has(m, labels) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
				found = true
			}
		}
	}
	return sum, found
}

func has(m *dto.Metric, labels map[string]string) bool {
	matching := 0
	for _, l := range m.GetLabel() {
		if value, asked := labels[l.GetName()]; asked && value == l.GetValue() {
			matching++
		}
	}
	return matching == len(labels)
}
