package main

import (
	"encoding/json"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/nodeagent"
	"github.com/bobnet-go/bobnet/vipl"
	dto "github.com/prometheus/client_model/go"
)

// TestReadSnapshot: what a NIC says is read whole, also if it is closely packed.
func TestReadSnapshot(t *testing.T) {
	for _, n := range []int{0, 1, 1000} {
		want := vipl.Snapshot{LinkErr: "none", Names: []string{"a", "b"}, Rest: &vipl.VISnapshot{Probes: 3}}
		for i := range n {
			want.VIs = append(want.VIs, vipl.VISnapshot{Probes: i, Pending: make([]vipl.PendingSend, vipl.PendingMax*(i%2))})
			if i%2 == 0 {
				want.VIs[i].Pending = nil
			}
		}
		body, err := json.Marshal(&want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := readSnapshot(body); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%d VIs: %v, %d read", n, err, len(got.VIs))
		}
	}
}

// TestSnapshotMemory: the longest answers of a link, made to have as many VIs or sends as fit
// them, take a small multiple of their length all told, most of which is garbage at once.
func TestSnapshotMemory(t *testing.T) {
	many := func(before, one, after string) []byte {
		n := (agent.MaxAnswer - len(before) - len(after)) / (len(one) + 1)
		return []byte(before + strings.Repeat(one+",", n-1) + one + after)
	}
	for name, tt := range map[string]struct {
		body []byte
		most uint64
	}{
		"VIs":            {many(`{"VIs":[`, `{}`, `]}`), agent.MaxAnswer * 16},
		"no VIs at all":  {many(`{"VIs":[`, `0`, `]}`), agent.MaxAnswer * 16},
		"null":           {many(`{"VIs":[`, `null`, `]}`), agent.MaxAnswer * 16},
		"again":          {many(`{`, `"VIs":[{},{},{}]`, `}`), agent.MaxAnswer * 128}, // all told: each is dropped
		"sends":          {many(`{"VIs":[{"Pending":[`, `{}`, `]}]}`), agent.MaxAnswer * 96},
		"sends of Rest":  {many(`{"Rest":{"Pending":[`, `{}`, `]}}`), agent.MaxAnswer * 96},
		"what is no NIC": {many(`{"VIs":{"a":[`, `{}`, `]}}`), agent.MaxAnswer * 16},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s, err := readSnapshot(tt.body)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > tt.most {
			t.Errorf("%s: %d octets take %d", name, len(tt.body), used)
		}
		if err == nil && (len(s.VIs) > len(tt.body)/viOctets || s.Rest != nil) {
			t.Errorf("%s: %d VIs of %d octets", name, len(s.VIs), len(tt.body))
		}
	}
}

// TestBudget: a user's programs are left out when they have said too much together, and others'
// and root's are not.
func TestBudget(t *testing.T) {
	b := newBudget()
	alice, other, root := &nodeagent.Program{UID: 7, Tells: true}, &nodeagent.Program{UID: 8}, &nodeagent.Program{}
	for range agentUserOctets / agent.MaxAnswer {
		if err := b.take(alice, agent.MaxAnswer); err != nil {
			t.Fatal(err)
		}
	}
	err := b.take(alice, 1)
	if err == nil || !strings.Contains(err.Error(), "of user 7 would have 4194305 octets") {
		t.Error(err)
	}
	if err := errors.Join(b.take(other, agentUserOctets), b.take(root, 2*agentUserOctets), b.take(alice, 0)); err != nil {
		t.Error(err)
	}
	said := []*dto.MetricFamily{{Metric: make([]*dto.Metric, agentUserSeries)}, {Metric: make([]*dto.Metric, 1)}}
	if b.takeSeries(alice, said[:1]) != nil || b.takeSeries(alice, said[1:]) == nil || b.takeSeries(other, said[1:]) != nil {
		t.Error("series are not bounded by user")
	}
}
