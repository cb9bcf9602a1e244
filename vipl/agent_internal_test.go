package vipl

import (
	"encoding/json"
	"testing"
)

// TestSnapshotWithin: a snapshot of many VIs is cut to a size, and none of its counts is lost.
func TestSnapshotWithin(t *testing.T) {
	for _, n := range []int{0, 1, 100, 1000} {
		var s Snapshot
		for i := range n {
			s.VIs = append(s.VIs, VISnapshot{SendQueue: i, Pending: make([]PendingSend, PendingMax)})
		}
		const size = 100_000
		body, err := s.within(size)
		if err != nil || len(body) > size {
			t.Fatalf("%d VIs: %d bytes, %v", n, len(body), err)
		}
		var got Snapshot
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		sum := 0
		for i := range got.VIs {
			sum += got.VIs[i].SendQueue
		}
		if got.Rest != nil {
			sum += got.Rest.SendQueue
		}
		if len(got.VIs)+got.Others != n || sum != n*(n-1)/2 || (n == 1) != (len(got.VIs) == 1 && got.Rest == nil) && n < 2 {
			t.Errorf("of %d VIs %d are listed and %d left out, and their queues add up to %d", n, len(got.VIs), got.Others, sum)
		}
	}
}
