package problems

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Bounds, as objects are of others: beyond them problems are only counted.
const (
	// maxPerSource bounds what is kept of one source, so that none crowds out another.
	maxPerSource = 1000
	// maxPerSubject bounds what is kept of one saying.
	maxPerSubject = 16
)

// Config sets up a Table.
type Config struct {
	// Log gets a line when a problem comes and when it goes; nil is silence.
	Log *slog.Logger
	// Registerer gets linkerd_lite_problems; nil means no metrics.
	Registerer prometheus.Registerer
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Table is all problems known at present. It is safe for concurrent use. A nil
// Table is one that forgets everything.
//
// How it works:
//  1. What is kept of a source are its problems, each once, and for every
//     subject those that it said of it last.
//  2. Several subjects can share a problem: ten views that read one bad
//     annotation say the same. It is there as long as one of them says it.
//  3. A problem is logged when the first subject brings it and when the last
//     one lets go of it.
type Table struct {
	log     *slog.Logger
	now     func() time.Time
	leftOut *prometheus.CounterVec

	mu      sync.Mutex
	sources map[string]*source
}

// source is what one source says.
type source struct {
	// said are the problems of each subject that has any.
	said map[string][]*entry
	// entries are by the problem without its time.
	entries map[Problem]*entry
	// retired are the times of problems that nobody looks at any more.
	retired map[Problem]time.Time
}

// entry is a problem and how many subjects say it.
type entry struct {
	problem  Problem
	subjects int
}

// New returns an empty table.
func New(config Config) (*Table, error) {
	t := &Table{log: config.Log, now: config.Now, sources: map[string]*source{}}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	if t.now == nil {
		t.now = time.Now
	}
	t.leftOut = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "linkerd_lite_problems_left_out_total",
		Help: "Problems that were not kept, since their source or their subject has too many.",
	}, []string{"source"})
	if config.Registerer == nil {
		return t, nil
	}
	if err := config.Registerer.Register(t.leftOut); err != nil {
		return nil, err
	}
	return t, config.Registerer.Register(collector{t})
}

// Say makes found everything that source finds wrong with subject: problems
// that it said of it before and does not repeat are gone, and without any the
// subject is as it should be. Subject is whatever the source judges at a time
// (an object, a file, a view), under a name that is unique within the source.
func (t *Table) Say(sourceName, subject string, found ...Problem) {
	t.Record(sourceName, subject, found...).Log()
}

// News is what has come and gone by a saying; nil is no news.
type News struct {
	log        *slog.Logger
	came, gone []Problem
}

// Record is Say without the log, which the caller writes with what is returned:
// for those who hold a lock while they judge and must not wait for a terminal
// under it.
func (t *Table) Record(sourceName, subject string, found ...Problem) *News {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sources[sourceName]
	if len(found) == 0 && (s == nil || len(s.said[subject]) == 0) {
		return nil
	}
	if s == nil {
		s = &source{said: map[string][]*entry{}, entries: map[Problem]*entry{}, retired: map[Problem]time.Time{}}
		t.sources[sourceName] = s
	}
	gone := s.release(subject)
	came := t.add(s, sourceName, subject, found, gone)
	return t.news(came, gone)
}

func (t *Table) news(came []Problem, gone map[Problem]*entry) *News {
	if len(came) == 0 && len(gone) == 0 {
		return nil
	}
	return &News{log: t.log, came: came, gone: slices.SortedFunc(maps.Keys(gone), compare)}
}

// Retire takes back what source said of a subject that it judges no longer,
// without a word: the object is not mended, but nobody knows. Should the same
// be said again, it is not news, and is as old as it was.
func (t *Table) Retire(sourceName, subject string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sources[sourceName]
	if s == nil {
		return
	}
	for key, e := range s.release(subject) {
		if len(s.retired) == maxPerSource {
			clear(s.retired)
		}
		s.retired[key] = e.problem.Since
	}
}

// Keep makes source forget the subjects for which stays is false: for a source
// that has learnt at once which subjects there are. Stays must not call the table.
func (t *Table) Keep(sourceName string, stays func(subject string) bool) {
	if t == nil {
		return
	}
	t.keep(sourceName, stays).Log()
}

func (t *Table) keep(sourceName string, stays func(subject string) bool) *News {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sources[sourceName]
	if s == nil {
		return nil
	}
	gone := map[Problem]*entry{}
	for subject := range s.said {
		if !stays(subject) {
			maps.Copy(gone, s.release(subject))
		}
	}
	return t.news(nil, gone)
}

// Leave takes back what is said of the objects of a linked cluster, without a
// word: they are not mended, but nobody knows them any more.
func (t *Table) Leave(cluster string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.sources {
		for subject, said := range s.said {
			if said[0].problem.Object.Cluster == cluster {
				s.release(subject)
			}
		}
		maps.DeleteFunc(s.retired, func(p Problem, _ time.Time) bool { return p.Object.Cluster == cluster })
	}
}

// release takes back what was said of subject, and returns what nobody says any
// more. The lock is held.
func (s *source) release(subject string) map[Problem]*entry {
	gone := map[Problem]*entry{}
	for _, e := range s.said[subject] {
		e.subjects--
		if e.subjects == 0 {
			key := e.problem
			key.Since = time.Time{}
			delete(s.entries, key)
			gone[key] = e
		}
	}
	delete(s.said, subject)
	return gone
}

// add records what is found, and returns what nobody said before. What is in
// gone and said again is as it was, and taken out of gone. The lock is held.
func (t *Table) add(s *source, sourceName, subject string, found []Problem, gone map[Problem]*entry) []Problem {
	var came []Problem
	var said []*entry
	for _, p := range found {
		key := normal(p, sourceName)
		e := s.entries[key]
		if e != nil && slices.Contains(said, e) {
			continue
		}
		if len(said) == maxPerSubject || e == nil && len(s.entries) == maxPerSource {
			t.leftOut.WithLabelValues(sourceName).Inc()
			continue
		}
		if e == nil {
			if e = gone[key]; e != nil {
				delete(gone, key)
			} else {
				e = &entry{problem: key}
				since, known := s.retired[key]
				delete(s.retired, key)
				if e.problem.Since = since; !known {
					e.problem.Since = t.now()
					came = append(came, e.problem)
				}
			}
			s.entries[key] = e
		}
		e.subjects++
		said = append(said, e)
	}
	if len(said) > 0 {
		s.said[subject] = said
	}
	return came
}

// Log writes a line for each problem that has come or gone, but for those that
// another one of the same field has taken the place of.
func (n *News) Log() {
	if n == nil {
		return
	}
	for _, p := range n.came {
		level := slog.LevelWarn
		if p.Severity == Note {
			level = slog.LevelInfo
		}
		n.log.Log(context.Background(), level, p.Message, p.attributes()...)
	}
	for _, p := range n.gone {
		if !slices.ContainsFunc(n.came, p.samePlace) {
			n.log.Info("mended: "+p.Message, p.attributes()...)
		}
	}
}

// samePlace is true for a problem of the same field: one that takes the place of p.
func (p Problem) samePlace(other Problem) bool {
	return p.Object == other.Object && p.Field == other.Field && p.Place() == other.Place()
}

func (p Problem) attributes() []any {
	attributes := []any{"source", p.Source}
	for _, pair := range [][2]string{
		{"object", p.Object.String()}, {"group", p.Object.Group}, {"field", p.Field}, {"where", p.Place()}, {"instead", p.Instead},
	} {
		if pair[1] != "" {
			attributes = append(attributes, pair[0], pair[1])
		}
	}
	return attributes
}

// List returns all problems, ordered by kind, namespace and name.
func (t *Table) List() []Problem {
	return t.list(func(Problem) bool { return true })
}

// Of returns the problems of one object, in any version of its group.
func (t *Table) Of(object Object) []Problem {
	return t.list(func(p Problem) bool {
		version := p.Object.Version
		p.Object.Version = object.Version
		same := p.Object == object
		p.Object.Version = version
		return same
	})
}

func (t *Table) list(wanted func(Problem) bool) []Problem {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	var list []Problem
	for _, s := range t.sources {
		for _, e := range s.entries {
			if wanted(e.problem) {
				list = append(list, e.problem)
			}
		}
	}
	t.mu.Unlock()
	slices.SortFunc(list, compare)
	return list
}

// collector counts the problems by source and kind.
type collector struct{ table *Table }

func (c collector) desc() *prometheus.Desc {
	return prometheus.NewDesc("linkerd_lite_problems", "Problems known at present.", []string{"source", "kind"}, nil)
}

// Describe implements prometheus.Collector.
func (c collector) Describe(descs chan<- *prometheus.Desc) { descs <- c.desc() }

// Collect implements prometheus.Collector.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	counts := map[[2]string]float64{}
	for _, p := range c.table.List() {
		counts[[2]string{p.Source, p.Object.Kind}]++
	}
	for labels, count := range counts {
		metrics <- prometheus.MustNewConstMetric(c.desc(), prometheus.GaugeValue, count, labels[:]...)
	}
}
