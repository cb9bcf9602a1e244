package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/bobnet-go/bobnet/internal/nodeagent"
	"github.com/bobnet-go/bobnet/vipl"
	dto "github.com/prometheus/client_model/go"
)

// Bounds on what the answers of all programs of one user take, when all are asked once.
const (
	agentUserOctets = 4 << 20
	agentUserSeries = 32_000
)

// budget is what is left of these bounds. Root's programs have none.
type budget struct {
	mu             sync.Mutex
	octets, series map[uint32]int // used, by user
	reading        sync.Mutex     // held while an answer is taken apart, which takes more memory than what is left of it
}

func newBudget() *budget {
	return &budget{octets: map[uint32]int{}, series: map[uint32]int{}}
}

// take notes that a program's answer takes so many octets.
func (b *budget) take(p *nodeagent.Program, octets int) error {
	return b.use(b.octets, p, octets, agentUserOctets, "octets")
}

// takeSeries notes how many series a program's answer has.
func (b *budget) takeSeries(p *nodeagent.Program, said []*dto.MetricFamily) error {
	n := 0
	for _, f := range said {
		n += len(f.Metric)
	}
	return b.use(b.series, p, n, agentUserSeries, "series")
}

// use notes that of something more is used, unless it is too much.
func (b *budget) use(used map[uint32]int, p *nodeagent.Program, more, most int, what string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.UID != 0 && used[p.UID]+more > most {
		return fmt.Errorf("%v: left out: with its answer those of user %d would have %d %s, more than %d", p, p.UID, used[p.UID]+more, what, most)
	}
	used[p.UID] += more
	return nil
}

// viOctets is fewer than a VI's state has as JSON, whatever it is.
const viOctets = 256

// readSnapshot reads what a link says, which takes a small multiple of it in memory, also if it
// is made to take more.
func readSnapshot(body []byte) (vipl.Snapshot, error) {
	var s struct {
		vipl.Snapshot
		VIs fewVIs // in the place of the other
	}
	if err := json.Unmarshal(body, &s); err != nil {
		return vipl.Snapshot{}, err
	}
	s.Snapshot.VIs = s.VIs
	if rest := s.Rest; rest != nil && len(rest.Pending) > vipl.PendingMax {
		return vipl.Snapshot{}, errTooMany
	}
	return s.Snapshot, nil
}

var errTooMany = fmt.Errorf("it lists more than a NIC has: more VIs than one for %d octets, or more than %d sends of one", viOctets, vipl.PendingMax)

// fewVIs are the VIs of a snapshot, if there are not more than it has octets for.
type fewVIs []vipl.VISnapshot

// UnmarshalJSON implements json.Unmarshaler.
func (few *fewVIs) UnmarshalJSON(body []byte) error {
	*few = nil
	d := json.NewDecoder(bytes.NewReader(body))
	if first, err := d.Token(); err != nil || first != json.Delim('[') {
		return err // null, or what are no VIs
	}
	for d.More() {
		var v vipl.VISnapshot
		switch err := d.Decode(&v); {
		case err != nil:
			return err
		case len(v.Pending) > vipl.PendingMax, (len(*few)+1)*viOctets > len(body):
			return errTooMany
		}
		*few = append(*few, v)
	}
	return nil
}
